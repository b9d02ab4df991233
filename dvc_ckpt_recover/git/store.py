"""The object store of one repository, opened at exactly the folder given.

Failure rule: what cannot be read is a DamagedError that names the object.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pygit2

from dvc_ckpt_recover.durable import sync_dir, sync_dirs_up, sync_file, write_bytes
from dvc_ckpt_recover.errors import DamagedError, NotFoundError, UnsafeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FALLBACK_NAME = "dvc_ckpt_recover"
FALLBACK_EMAIL = "dvc_ckpt_recover@localhost"

_NO_SEARCH = 1
"""GIT_REPOSITORY_OPEN_NO_SEARCH of libgit2, by its number since its name differs by version."""

BLOB = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000

_OBJECT_FILE = re.compile("[0-9a-f]{38}")
_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}


class Store:
    """Objects of the repository whose work tree (or Git folder) is ``root``.

    Args:
        root: The folder itself. Git's search upwards is not used: from a temp dir that has lost
            its ``.git`` it would find the user's main repository.

    Raises:
        NotFoundError: ``root`` is no Git repository.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        try:
            self.repo = pygit2.Repository(root, _NO_SEARCH)
        except (pygit2.GitError, KeyError, ValueError, OSError) as exc:
            msg = f"{root} is not a Git repository that can be opened ({exc})"
            raise NotFoundError(msg) from exc

    @property
    def common_dir(self) -> str:
        """Return the folder of objects and refs; a work tree made by Git shares its parent's."""
        git_dir: str = os.path.abspath(self.repo.path)
        try:
            with open(os.path.join(git_dir, "commondir"), encoding="utf-8") as file:
                return os.path.abspath(os.path.join(git_dir, file.read().strip()))
        except FileNotFoundError:
            return git_dir

    def has(self, sha: str) -> bool:
        """Return whether the object is there, packed or loose, whatever is in it."""
        try:
            return pygit2.Oid(hex=sha) in self.repo
        except pygit2.GitError:
            return True  # and damaged, as reading it will tell

    def read(self, sha: str) -> tuple[int, bytes]:
        """Return type and bytes of an object; libgit2 compares the bytes with the name.

        Raises:
            DamagedError: It is missing, or its bytes do not fit its name.
        """
        try:
            kind, data = self.repo.odb.read(pygit2.Oid(hex=sha))[:2]
        except (KeyError, pygit2.GitError, ValueError, OSError) as exc:
            msg = f"Git object {sha} in {self.root} cannot be read ({exc})"
            raise DamagedError(msg) from exc
        return int(kind), data

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        """Tell libgit2's errors in our own words; the bytes may be elsewhere still, so unsafe."""
        try:
            yield
        except (pygit2.GitError, KeyError, ValueError) as exc:
            msg = f"{what} could not be stored in {self.root} ({exc})"
            raise UnsafeError(msg) from exc

    def write(self, kind: int, data: bytes) -> str:
        """Store an object of the type ``kind`` and return its name, 40 hex digits.

        Raises:
            UnsafeError: It could not be stored; so for all that store something.
            OSError: Likewise.
        """
        with self._writing("an object"):
            return str(self.repo.write(kind, data))

    def rewrite(self, kind: int, data: bytes) -> str:
        """Store an object over a damaged one of that name, which ``write`` would leave there.

        Raises:
            OSError: It could not be stored.
        """
        head = f"{_KINDS[kind]} {len(data)}".encode("ascii") + b"\0"
        sha = hashlib.sha1(head + data, usedforsecurity=False).hexdigest()
        path = os.path.join(self.common_dir, "objects", sha[:2], sha[2:])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_bytes(path, zlib.compress(head + data))
        os.chmod(path, 0o444)
        return sha

    def drop_empty(self) -> list[str]:
        """Remove the loose object files without a byte that a power cut leaves.

        They hold nothing, and Git takes each for the object and does not write it again.

        Returns:
            The objects' names.
        """
        top = os.path.join(self.common_dir, "objects")
        found = []
        for folder in os.listdir(top):
            if len(folder) != 2:  # noqa: PLR2004 - "pack", "info"
                continue
            with os.scandir(os.path.join(top, folder)) as entries:
                # Others write aside in the same folder, in files that are empty at first.
                named = [each for each in entries if _OBJECT_FILE.fullmatch(each.name)]
            for entry in named:
                with suppress(FileNotFoundError):  # a git gc was faster
                    if entry.stat().st_size == 0:
                        os.unlink(entry.path)
                        found.append(folder + entry.name)
        if found:
            self.repo = pygit2.Repository(self.root)
        return found

    def blob(self, data: bytes) -> str:
        """Store a file's bytes and return the object's name."""
        with self._writing("a file"):
            return str(self.repo.create_blob(data))

    def blob_of(self, path: str) -> str:
        """Store the bytes of the file ``path``, unfiltered and in pieces; return the name."""
        with self._writing(path), open(path, "rb") as file:
            return str(self.repo.create_blob_fromiobase(file))

    def commit(self, sha: str) -> pygit2.Commit:
        """Return a commit. Raises DamagedError when there is none of that name."""
        try:
            found = self.repo[pygit2.Oid(hex=sha)]
        except (KeyError, pygit2.GitError, ValueError, OSError) as exc:
            msg = f"Git commit {sha} in {self.root} cannot be read ({exc})"
            raise DamagedError(msg) from exc
        if not isinstance(found, pygit2.Commit):
            msg = f"Git object {sha} in {self.root} is not a commit"
            raise DamagedError(msg)
        return found

    def _tree(self, commit: str) -> pygit2.Tree:
        """Return a commit's tree. Raises DamagedError."""
        found = self.commit(commit)
        try:
            return found.tree
        except (KeyError, pygit2.GitError, ValueError, OSError) as exc:
            msg = f"the tree of the Git commit {commit} in {self.root} cannot be read ({exc})"
            raise DamagedError(msg) from exc

    def _read_into(self, index: pygit2.Index, commit: str) -> None:
        tree = self._tree(commit)
        try:
            index.read_tree(tree)
        except (KeyError, pygit2.GitError, ValueError, OSError) as exc:
            msg = f"the tree of the Git commit {commit} in {self.root} cannot be read ({exc})"
            raise DamagedError(msg) from exc

    def entries(self, tree: str) -> pygit2.Tree:
        """Return the tree of that name, to go through. Raises DamagedError."""
        self.read(tree)
        try:
            return self.repo[pygit2.Oid(hex=tree)]
        except (KeyError, pygit2.GitError, ValueError, OSError) as exc:
            msg = f"Git tree {tree} in {self.root} cannot be read ({exc})"
            raise DamagedError(msg) from exc

    def tree_sha(self, commit: str) -> str:
        """Return the name of a commit's tree."""
        return str(self.commit(commit).tree_id)

    def file_at(self, commit: str, path: str) -> bytes | None:
        """Return the bytes of the file ``path`` in a commit, or None when it has none."""
        try:
            entry = self._tree(commit)[path]
        except KeyError:
            return None
        return self.read(str(entry.id))[1] if entry.type_str == "blob" else None

    def files_named(self, commit: str, name: str) -> dict[str, bytes]:
        """Return the files called ``name`` anywhere in a commit: path -> bytes."""
        index = pygit2.Index()
        self._read_into(index, commit)
        return {
            entry.path: self.read(str(entry.id))[1]
            for entry in index
            if entry.path == name or entry.path.endswith(f"/{name}")
        }

    def blobs(self, commit: str) -> dict[str, str]:
        """Return the files of a commit: path -> name of the object."""
        index = pygit2.Index()
        index.read_tree(self.commit(commit).tree)
        return {entry.path: str(entry.id) for entry in index}

    def files_below(self, commit: str, top: str) -> dict[str, bytes]:
        """Return the file ``top`` of a commit, or all files in the folder of that name."""
        index = pygit2.Index()
        self._read_into(index, commit)
        inside = f"{top}/"
        return {
            entry.path: self.read(str(entry.id))[1]
            for entry in index
            if entry.path == top or entry.path.startswith(inside)
        }

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether ``old`` is ``new`` or one of the commits behind it."""
        if old == new:
            return True
        try:
            return bool(self.repo.descendant_of(pygit2.Oid(hex=new), pygit2.Oid(hex=old)))
        except (pygit2.GitError, KeyError):
            return False

    def make_tree(self, base: str | None, put: dict[str, tuple[str, int]], drop: set[str]) -> str:
        """Store a tree made from another one.

        Args:
            base: Commit whose tree to start from, or None for an empty one.
            put: Path -> (blob, mode) to add or replace.
            drop: Paths to leave out, each a file or a folder.

        Returns:
            The name of the tree.
        """
        index = pygit2.Index()
        if base:
            self._read_into(index, base)
        folders = tuple(f"{path}/" for path in drop)
        gone = [e.path for e in index if e.path in drop or e.path.startswith(folders)]
        for path in gone:
            index.remove(path)
        for path, (sha, mode) in put.items():
            index.add(pygit2.IndexEntry(path, pygit2.Oid(hex=sha), mode))
        with self._writing("a tree"):
            return str(index.write_tree(self.repo))

    def make_commit(self, tree: str, parents: Iterable[str], message: str) -> str:
        """Store a commit, without hooks and signing, and return its name."""
        who = self._signature()
        oids = [pygit2.Oid(hex=parent) for parent in parents]
        with self._writing("a commit"):
            created = self.repo.create_commit(None, who, who, message, pygit2.Oid(hex=tree), oids)
        return str(created)

    def _signature(self) -> pygit2.Signature:
        try:
            return self.repo.default_signature
        except (KeyError, pygit2.GitError):
            return pygit2.Signature(FALLBACK_NAME, FALLBACK_EMAIL)

    def sync(self, shas: Iterable[str]) -> None:
        """Bring objects to the disk: loose files with their folders; packs with theirs."""
        objects = os.path.join(self.common_dir, "objects")
        folders = set()
        packed = False
        for sha in shas:
            path = os.path.join(objects, sha[:2], sha[2:])
            try:
                sync_file(path)
                folders.add(os.path.dirname(path))
            except FileNotFoundError:
                packed = True
        if packed:
            folders |= self._sync_packs(os.path.join(objects, "pack"))
        for folder in folders:
            sync_dir(folder)
        sync_dirs_up(os.path.join(objects, "x"), objects)

    @staticmethod
    def _sync_packs(folder: str) -> set[str]:
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return set()
        for name in names:
            if name.endswith((".pack", ".idx")):
                sync_file(os.path.join(folder, name))
        return {folder}
