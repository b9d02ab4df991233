"""The DVC cache, by object: ``dvc commit`` and ``dvc add`` would fill the run cache too."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from typing import TYPE_CHECKING, Any, Callable

from shortuuid import uuid

from dvc_ckpt_recover.durable import sync_dir, sync_files
from dvc_ckpt_recover.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CHUNK = 1 << 20
_MODE = 0o444
_DEPTH = 4
"""Folders above an object store that DVC may have made with it: ``.dvc/cache/files/md5``."""


def md5_of(path: str) -> str:
    """Return the MD5 of a file's bytes, 32 hex digits, read in pieces of 1 MiB."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    return digest.hexdigest()


_NO_REFLINK = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS)
_streamed: set[tuple[int, int]] = set()
"""Pairs of devices between which reflinks were refused, so that nobody tries again."""


def clone_or_copy(source: str, target: str, devices: tuple[int, int] = (-1, -1)) -> None:
    """Copy a file's bytes: as a reflink where the file system can, else in one stream.

    Args:
        source: The file.
        target: The copy; what is there is overwritten.
        devices: The devices of both, or -1 when they are not known.
    """
    if devices not in _streamed:
        from dvc_objects.fs.system import reflink

        try:
            reflink(source, target)
        except NotImplementedError:
            _streamed.add(devices)
        except OSError as exc:
            if exc.errno in _NO_REFLINK and devices != (-1, -1):
                _streamed.add(devices)
        else:
            return
    shutil.copyfile(source, target)


def listing_of(files: dict[str, str]) -> tuple[str, bytes]:
    """Return hash and bytes of a folder's object; ``files`` as for ``Cache.put_tree``."""
    from dvc_data.hashfile.hash_info import HashInfo
    from dvc_data.hashfile.tree import Tree

    tree = Tree()
    for name, oid in files.items():
        tree.add(tuple(name.split("/")), None, HashInfo("md5", oid))
    data = tree.as_bytes()
    return hashlib.md5(data, usedforsecurity=False).hexdigest() + ".dir", data


class Cache:
    """The local object stores of one DVC project, of today's layout and of DVC 2's.

    Args:
        repo: DVC's ``Repo``.
    """

    def __init__(self, repo: Any) -> None:  # noqa: ANN401
        manager = getattr(repo, "cache", None) or repo.odb
        local = manager.local
        legacy = getattr(manager, "_odb", {}).get("legacy")
        self._shared = bool((repo.config.get("cache") or {}).get("shared"))
        self._odbs = {"md5": local, "md5-dos2unix": legacy or local}
        self._led_to: set[str] = set()

    @property
    def root(self) -> str:
        """Return the folder of today's object store."""
        return str(self._odbs["md5"].path)

    def path(self, oid: str, hash_name: str = "md5") -> str:
        """Return where the object ``oid`` is, or would be."""
        return str(self._odbs[hash_name].oid_to_path(oid))

    def has(self, oid: str, hash_name: str = "md5") -> bool:
        """Return whether there is a file under the object's name, whatever is in it."""
        return os.path.isfile(self.path(oid, hash_name))

    def copy_in(self, oid: str, source: str) -> None:
        """Store a copy of the file ``source``, which stays as it is, under the name ``oid``.

        Raises:
            OSError: The cache is as before.
        """
        self._place(oid, lambda near: shutil.copyfile(source, near))

    def share(self, oid: str, aside: str) -> None:
        """Store the file ``aside`` under the name ``oid``, over whatever is there, and leave it.

        A second name for the same bytes where the file system has hard links, so that a process
        killed here leaves all that is needed to do it again.

        Raises:
            OSError: The cache is as before.
        """
        with contextlib.suppress(FileNotFoundError):
            if os.path.samefile(self.path(oid), aside):  # rename would leave its source
                return

        def link(near: str) -> None:
            try:
                os.link(aside, near)
            except OSError as exc:
                if exc.errno == errno.ENOSPC:
                    raise
                clone_or_copy(aside, near)

        self._place(oid, link)

    def _place(self, oid: str, make: Callable[[str], object]) -> None:
        """Have ``make`` write a file in the object's folder, and give it the object's name."""
        path = self.path(oid)
        self._odbs["md5"].makedirs(os.path.dirname(path))
        near = f"{path}.{uuid()}.tmp"
        try:
            make(near)
            os.chmod(near, _MODE)
            os.replace(near, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(near)
            raise

    def is_private(self, dvc_dir: str) -> bool:
        """Return whether the store lies in the project's own folder and nothing links to it."""
        odb = self._odbs["md5"]
        inside = os.path.realpath(self.root).startswith(os.path.realpath(dvc_dir) + os.sep)
        linked = {"symlink", "hardlink"} & set(getattr(odb, "cache_types", None) or ())
        return inside and not linked and not self._shared

    def put_tree(self, files: dict[str, str], aside: str) -> tuple[str, bool]:
        """Store the object of a folder.

        Args:
            files: Path in the folder, with ``/`` -> hash of the file.
            aside: Path for a file of this call's own.

        Returns:
            The folder's hash, ending in ``.dir``, and whether the object is new.
        """
        oid, data = listing_of(files)
        with open(aside, "wb") as file:
            file.write(data)
        is_new = not self.has(oid)
        self.share(oid, aside)
        return oid, is_new

    def put_listing(self, files: dict[str, str]) -> str:
        """Store the object of a folder, see ``put_tree``, with a file of its own in the cache."""
        os.makedirs(self.root, exist_ok=True)
        aside = os.path.join(self.root, f"{uuid()}.tmp")
        try:
            return self.put_tree(files, aside)[0]
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside)

    def _hash(self, path: str, hash_name: str) -> str:
        from dvc_data.hashfile.hash import hash_file

        odb = self._odbs[hash_name]
        name = hash_name if hash_name == "md5" else getattr(odb, "hash_name", "md5")
        if hash_name == "md5":
            return md5_of(path)
        return str(hash_file(path, odb.fs, name)[1].value)

    def check(self, oid: str, hash_name: str = "md5") -> None:
        """Read the object and compare it with its name; DVC itself trusts a read-only file.

        Raises:
            DamagedError: It is missing or has other bytes.
        """
        path = self.path(oid, hash_name)
        try:
            found = self._hash(path, hash_name)
        except OSError as exc:
            msg = f"the DVC object {oid} cannot be read ({exc})"
            raise DamagedError(msg) from exc
        if found != oid.partition(".")[0]:
            msg = f"the DVC object {oid} has other bytes than its name says ({found})"
            raise DamagedError(msg)

    def set_aside(self, oid: str, hash_name: str, folder: str) -> None:
        """Move an object with other bytes than its name says into ``folder``.

        DVC takes whatever lies under a name for the object and would not store the right bytes.
        What cannot be read stays, since nobody knows what it is. Raises OSError.
        """
        path = self.path(oid, hash_name)
        try:
            found = self._hash(path, hash_name)
        except OSError:
            return
        if found != oid.partition(".")[0]:
            os.makedirs(folder, exist_ok=True)
            shutil.move(path, os.path.join(folder, oid))

    def members(self, oid: str, hash_name: str = "md5") -> dict[str, str]:
        """Return the files of a folder object: path in the folder -> hash. Raises DamagedError."""
        try:
            with open(self.path(oid, hash_name), "rb") as file:
                entries = json.load(file)
            return {str(entry["relpath"]): str(entry["md5"]) for entry in entries}
        except (OSError, ValueError, KeyError, TypeError) as exc:
            msg = f"the DVC object {oid} is not a readable folder ({exc})"
            raise DamagedError(msg) from exc

    def closure(self, oid: str, hash_name: str = "md5") -> Iterator[str]:
        """Return the object and, for a folder, those of its files. Raises DamagedError."""
        yield oid
        if oid.endswith(".dir"):
            yield from self.members(oid, hash_name).values()

    def sync(self, oids: Iterable[str], hash_name: str = "md5") -> None:
        """Bring objects and the folders that hold their names to the disk. Raises OSError."""
        paths = [self.path(oid, hash_name) for oid in oids]
        sync_files(paths)
        for folder in {*map(os.path.dirname, paths), *self._above(hash_name)}:
            sync_dir(folder)

    def _above(self, hash_name: str) -> list[str]:
        """Return the folders whose names lead to the objects: this run may have made them."""
        folders = [os.path.abspath(str(self._odbs[hash_name].path))]
        if hash_name not in self._led_to:
            self._led_to.add(hash_name)
            for _ in range(_DEPTH):
                above = os.path.dirname(folders[-1])
                if not os.access(above, os.R_OK | os.W_OK):  # then nobody made anything there
                    break
                folders.append(above)
        return folders


def hash_infos(names: Iterable[tuple[str, str]]) -> set[Any]:
    """Return DVC's ``HashInfo`` of objects given as hash and hash name."""
    from dvc_data.hashfile.hash_info import HashInfo

    from dvc_ckpt_recover.dvc_api.version import has_native_checkpoints

    # DVC 2 calls both kinds md5, and keeps them in one place
    single = has_native_checkpoints()
    return {HashInfo("md5" if single else hash_name, oid) for oid, hash_name in names}
