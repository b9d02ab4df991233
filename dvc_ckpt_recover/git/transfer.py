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
    written: list[str] = []
    for sha in reversed(commits_between(source, tip, stop)):
        if force or not target.has(sha):
            _copy_tree(source, target, source.tree_sha(sha), written, force=force)
            _copy(source, target, sha, written, force=force)
    return written


def _copy_tree(source: Store, target: Store, sha: str, written: list[str], *, force: bool) -> None:
    if not force and target.has(sha):
        return
    for entry in source.entries(sha):
        if entry.type_str == "tree":
            _copy_tree(source, target, str(entry.id), written, force=force)
        elif entry.filemode != COMMIT_LINK:
            _copy(source, target, str(entry.id), written, force=force)
    _copy(source, target, sha, written, force=force)


def _copy(source: Store, target: Store, sha: str, written: list[str], *, force: bool) -> None:
    if not target.has(sha):
        written.append(target.write(*source.read(sha)))
    elif force and sha not in written and not _is_whole(target, sha):
        written.append(target.rewrite(*source.read(sha)))


def _is_whole(store: Store, sha: str) -> bool:
    try:
        store.read(sha)
    except DamagedError:
        return False
    return True
