"""Copy a branch's objects from a temp dir's repository into the main one.

Blobs go before trees and trees before commits, so that an object that is there always has what
it names; a transfer killed anywhere can be repeated. Each object is hashed while it is read.
Works for shallow clones, where ``git fetch`` by libgit2 fails on the missing parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git.history import commits_between

if TYPE_CHECKING:
    from dvc_ckpt_recover.git.store import Store

COMMIT_LINK = 0o160000


def copy_history(
    source: Store, target: Store, tip: str, stop: str | None, *, force: bool = False
) -> list[str]:
    """Copy what is reachable from ``tip`` and not from ``stop`` and missing in ``target``.

    Args:
        source: Where it is.
        target: Where it shall be.
        tip: The newest commit.
        stop: The commit before the first.
        force: Read what is there already, and replace what is damaged.

    Returns:
        The names of the objects written, oldest first.

    Raises:
        DamagedError: An object of ``source`` cannot be read.
        UnsafeError, OSError: An object could not be stored.
    """
    copy = _Copy(source, target, force=force)
    for sha in reversed(commits_between(source, tip, stop)):
        if copy.is_due(sha):
            copy.tree(source.tree_sha(sha))
            copy.one(sha)
    return copy.written


class _Copy:
    """One transfer; each object is looked at once."""

    def __init__(self, source: Store, target: Store, *, force: bool) -> None:
        self.written: list[str] = []
        self._source, self._target, self._force = source, target, force
        self._seen: set[str] = set()

    def is_due(self, sha: str) -> bool:
        """Return whether an object with all that it names has to be looked at."""
        return sha not in self._seen and (self._force or not self._target.has(sha))

    def tree(self, sha: str) -> None:
        """Copy a folder, its own object last."""
        if not self.is_due(sha):
            return
        for entry in self._source.entries(sha):
            if entry.type_str == "tree":
                self.tree(str(entry.id))
            elif entry.filemode != COMMIT_LINK:
                self.one(str(entry.id))
        self.one(sha)

    def one(self, sha: str) -> None:
        """Copy one object, over a damaged one if there is one and it is asked for."""
        if sha in self._seen:
            return
        self._seen.add(sha)
        if not self._target.has(sha):
            self.written.append(self._target.write(*self._source.read(sha)))
        elif self._force and not _is_whole(self._target, sha):
            self.written.append(self._target.rewrite(*self._source.read(sha)))


def _is_whole(store: Store, sha: str) -> bool:
    try:
        store.read(sha)
    except DamagedError:
        return False
    return True
