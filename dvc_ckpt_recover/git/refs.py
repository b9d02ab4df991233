"""Refs of the main repository: created or moved forward with compare-and-swap, never overwritten.

They are written the way Git writes them, with its lock files, and synced before they get their
name: neither libgit2 nor Git before 2.36 does that, and a power cut then leaves an empty ref.

Failure rule: a ref that somebody else moved is an UnsafeError; the caller decides.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, List  # noqa: UP035 - for 3.9

import pygit2

from dvc_ckpt_recover.durable import sync_dir, sync_dirs_up, sync_file
from dvc_ckpt_recover.errors import DamagedError, RecoverError, UnsafeError
from dvc_ckpt_recover.git.locks import LockFile, patiently

if TYPE_CHECKING:
    from dvc_ckpt_recover.git.store import Store

LIVE = "refs/ckpt-recover/live/"
"""One ref a run: its newest ready checkpoint."""
RUNS = "refs/ckpt-recover/runs/"
"""One ref a run: the stash commit with its code and params."""


_TRIES = 5
Names = List[str]  # noqa: UP006
"""For a class that has a method ``list``."""


class Refs:
    """The refs of ``store``'s repository."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._repo = store.repo

    def get(self, name: str) -> str | None:
        """Return what the ref points to, 40 hex digits, or None when it does not exist.

        Raises:
            DamagedError: It exists but cannot be read (empty after a power cut, say).
        """
        try:
            found = self._repo.references.get(name)
            if found is not None:
                return str(found.resolve().target)
        except (pygit2.GitError, ValueError, KeyError, OSError) as exc:
            msg = f"the ref {name} cannot be read ({exc})"
            raise DamagedError(msg) from exc
        if os.path.isfile(self._path(name)):  # libgit2 takes some errors of the disk for "no ref"
            msg = f"the ref {name} cannot be read"
            raise DamagedError(msg)
        return None

    def is_empty(self, name: str) -> bool:
        """Return whether the ref is a file without a byte, as after a power cut."""
        try:
            return os.path.getsize(self._path(name)) == 0
        except OSError:
            return False

    def list(self, prefix: str, *, strict: bool = False) -> dict[str, str]:
        """Return the refs below ``prefix``: name -> commit.

        Args:
            prefix: Of the names, ending in ``/``.
            strict: Whether a damaged ref, or a folder that cannot be listed, is an error; else
                it is left out.

        Raises:
            DamagedError: See ``strict``.
        """
        found = {}
        names = [name for name in self._names(strict=strict) if name.startswith(prefix)]
        if strict:
            names += [name for name in self.loose(prefix) if name not in names]
        for name in names:
            try:
                sha = self.get(name)
            except DamagedError:
                if strict:
                    raise
                continue
            if sha:
                found[name] = sha
        return found

    def is_blocked(self, name: str) -> bool:
        """Return whether a ref of that name cannot be: another one is above or beneath it."""
        parts = name.split("/")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        return any(ref in above or ref.startswith(f"{name}/") for ref in self._repo.references)

    def _names(self, *, strict: bool) -> Names:
        try:
            return list(self._repo.references)
        except (pygit2.GitError, ValueError, KeyError, OSError) as exc:
            if not strict:
                return self.loose("refs/")
            msg = f"the refs of {self.store.root} cannot be listed ({exc})"
            raise DamagedError(msg) from exc

    def loose(self, prefix: str) -> Names:
        """Return the names of the files below ``prefix``, damaged ones too.

        Raises:
            DamagedError: A folder cannot be listed.
        """

        def stop(exc: OSError) -> None:
            if not isinstance(exc, FileNotFoundError):
                raise DamagedError(f"the refs in {exc.filename} cannot be listed ({exc})") from exc

        top = self.store.common_dir
        found = []
        for folder, _, names in os.walk(self._path(prefix.rstrip("/")), onerror=stop):
            place = os.path.relpath(folder, top).replace(os.sep, "/")
            found += [f"{place}/{name}" for name in names if not name.endswith(".lock")]
        return sorted(found)

    def move(self, name: str, new: str, old: str | None) -> None:
        """Point ``name`` at ``new`` if it still points at ``old`` (None: does not exist).

        When this returns, it is on the disk.

        Raises:
            UnsafeError: It points elsewhere, or Git's lock on it stays held.
        """
        self._write(name, new, lambda: self._expect(name, old))

    def mend(self, name: str, sha: str) -> None:
        """Point the damaged ref ``name`` at ``sha``. Raises UnsafeError when it is not damaged."""

        def expect_damage() -> None:
            try:
                held = self.get(name)
            except DamagedError:
                return
            msg = f"it is not damaged, it points at {held and held[:7]}"
            raise ValueError(msg)

        self._write(name, sha, expect_damage)

    def _expect(self, name: str, old: str | None) -> None:
        now = self.get(name)
        if now != old:
            msg = f"it points at {now and now[:7]}, not at {old and old[:7]}"
            raise ValueError(msg)
        if old is None:
            inside = f"{name}/"
            for other in self._repo.references:
                if other.startswith(inside) or name.startswith(f"{other}/"):
                    msg = f"there is a ref {other}"
                    raise ValueError(msg)

    def _write(self, name: str, sha: str, check: object) -> None:
        path = self._path(name)

        def swap() -> None:
            with _lock_of(path) as lock:
                check()  # type: ignore[operator]
                lock.commit(f"{sha}\n".encode("ascii"))
            sync_dirs_up(path, self.store.common_dir)

        try:
            pygit2.Oid(hex=sha)
            patiently(swap, self.store.common_dir)
        except UnsafeError as exc:
            msg = f"the ref {name} could not be moved to {sha[:7]} ({exc.happened})"
            raise UnsafeError(msg, todo=exc.todo) from exc
        except (pygit2.GitError, RecoverError, ValueError, OSError) as exc:
            msg = f"the ref {name} could not be moved to {sha[:7]} ({exc})"
            raise UnsafeError(msg) from exc

    def delete(self, name: str) -> None:
        """Remove a ref; it may be gone already. Raises UnsafeError when Git's lock stays held."""
        path = self._path(name)

        def remove() -> None:
            if not os.path.isdir(os.path.dirname(path)):
                self._remove_packed(name)
                return
            with _lock_of(path):
                self._remove_packed(name)  # first, so that its older value never shows
                if os.path.lexists(path):
                    os.unlink(path)
                    sync_dir(os.path.dirname(path))

        try:
            patiently(remove, self.store.common_dir)
        except UnsafeError as exc:
            msg = f"the ref {name} could not be removed ({exc.happened})"
            raise UnsafeError(msg, todo=exc.todo) from exc
        except OSError as exc:
            msg = f"the ref {name} could not be removed ({exc})"
            raise UnsafeError(msg) from exc
        self._drop_empty(os.path.dirname(path))

    def _remove_packed(self, name: str) -> None:
        packed = os.path.join(self.store.common_dir, "packed-refs")
        wanted = name.encode()
        if not _names_in(packed, wanted):
            return
        with LockFile(packed) as lock, open(packed, "rb") as file:
            kept = []
            dropped = False
            for line in file:
                if not (dropped and line.startswith(b"^")):  # what the dropped tag peels to
                    dropped = line.rstrip(b"\n").partition(b" ")[2] == wanted
                    if not dropped:
                        kept.append(line)
            lock.commit(b"".join(kept))
        sync_dir(self.store.common_dir)

    def _drop_empty(self, folder: str) -> None:
        """Remove folders that are empty now, as Git does, but not ``refs/<kind>`` itself."""
        top = os.path.join(self.store.common_dir, "refs")
        while os.path.dirname(folder) != top and folder.startswith(top + os.sep):
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = os.path.dirname(folder)

    def sync(self, name: str) -> None:
        """Bring a ref to the disk: its file (or the packed refs) and the folders above it."""
        top = self.store.common_dir
        path = self._path(name)
        if not os.path.exists(path):
            path = os.path.join(top, "packed-refs")
        sync_file(path)
        sync_dirs_up(path, top)

    def _path(self, name: str) -> str:
        return os.path.join(self.store.common_dir, *name.split("/"))


def _names_in(packed: str, name: bytes) -> bool:
    try:
        with open(packed, "rb") as file:
            return any(line.rstrip(b"\n").partition(b" ")[2] == name for line in file)
    except FileNotFoundError:
        return False


def _lock_of(path: str) -> LockFile:
    """Return Git's lock on a loose ref, whose folder another process may just have removed."""
    lock = LockFile(path)
    for _ in range(_TRIES):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.isdir(os.path.dirname(path)):
            break
    return lock
