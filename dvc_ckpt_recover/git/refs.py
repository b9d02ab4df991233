"""Refs of the main repository: created or moved forward with compare-and-swap, never overwritten.

Failure rule: a ref that somebody else moved is an UnsafeError; the caller decides.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Callable, TypeVar

import pygit2

from dvc_ckpt_recover.durable import sync_dirs_up, sync_file
from dvc_ckpt_recover.errors import DamagedError, UnsafeError

if TYPE_CHECKING:
    from dvc_ckpt_recover.git.store import Store

LIVE = "refs/ckpt-recover/live/"
"""One ref a run: its newest ready checkpoint."""
RUNS = "refs/ckpt-recover/runs/"
"""One ref a run: the stash commit with its code and params."""

_LOCK_WAIT = 10.0
T = TypeVar("T")


def _patiently(action: Callable[[], T]) -> T:
    """Do ``action`` again while another process holds Git's lock, for at most 10 s."""
    end = time.monotonic() + _LOCK_WAIT
    while True:
        try:
            return action()
        except (pygit2.GitError, OSError) as exc:
            if "lock" not in str(exc).lower() or time.monotonic() > end:
                raise
        time.sleep(0.02)


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
            return str(found.resolve().target) if found is not None else None
        except (pygit2.GitError, ValueError, KeyError, OSError) as exc:
            msg = f"the ref {name} cannot be read ({exc})"
            raise DamagedError(msg) from exc

    def list(self, prefix: str) -> dict[str, str]:
        """Return the readable refs below ``prefix``: name -> commit. Damaged ones are left out."""
        found = {}
        for name in list(self._repo.references):
            if name.startswith(prefix):
                try:
                    sha = self.get(name)
                except DamagedError:
                    continue
                if sha:
                    found[name] = sha
        return found

    def files(self, prefix: str) -> set[str]:
        """Return the names of the refs below ``prefix`` that are files, readable or not.

        ``prefix`` ends with a slash. libgit2 does not list those that it cannot read.
        """
        top = self.store.common_dir
        found = set()
        for folder, _, names in os.walk(os.path.join(top, *prefix.split("/"))):
            base = os.path.relpath(folder, top).replace(os.sep, "/")
            found |= {f"{base}/{name}" for name in names if not name.endswith(".lock")}
        return found

    def move(self, name: str, new: str, old: str | None) -> None:
        """Point ``name`` at ``new`` if it still points at ``old`` (None: does not exist).

        Raises:
            UnsafeError: It points elsewhere, or Git's lock on it stays held.
        """
        oid = pygit2.Oid(hex=new)
        try:
            _patiently(lambda: self._swap(name, oid, old))
        except (pygit2.GitError, ValueError, OSError) as exc:
            msg = f"the ref {name} could not be moved to {new[:7]} ({exc})"
            raise UnsafeError(msg) from exc

    def _swap(self, name: str, new: pygit2.Oid, old: str | None) -> None:
        if old is None:
            self._repo.references.create(name, new)
            return
        found = self._repo.references[name]
        if str(found.target) != old:
            msg = f"it points at {str(found.target)[:7]}, not at {old[:7]}"
            raise ValueError(msg)
        found.set_target(new)  # libgit2 compares with what it read above

    def delete(self, name: str) -> None:
        """Remove a ref; it may be gone already. Raises UnsafeError when Git's lock stays held."""

        def remove() -> None:
            if name in self._repo.references:
                self._repo.references.delete(name)

        try:
            _patiently(remove)
        except KeyError:
            return
        except (pygit2.GitError, OSError) as exc:
            msg = f"the ref {name} could not be removed ({exc})"
            raise UnsafeError(msg) from exc

    def sync(self, name: str) -> None:
        """Bring a ref to the disk: its file (or the packed refs) and the folders above it."""
        top = self.store.common_dir
        path = os.path.join(top, *name.split("/"))
        if not os.path.exists(path):
            path = os.path.join(top, "packed-refs")
        sync_file(path)
        sync_dirs_up(path, top)
