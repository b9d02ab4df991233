"""Copy a branch's objects from a temp dir's repository into the main one.

Blobs go before trees and trees before commits, so that an object that is there always has what
it names; a transfer killed anywhere can be repeated. Each object is hashed while it is read.
Works for shallow clones, where ``git fetch`` by libgit2 fails on the missing parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover.git.history import commits_between

if TYPE_CHECKING:
    from dvc_ckpt_recover.git.store import Store

COMMIT_LINK = 0o160000


def copy_history(source: Store, target: Store, tip: str, stop: str | None) -> list[str]:
    """Copy what is reachable from ``tip`` and not from ``stop`` and missing in ``target``.

    Returns:
        The names of the objects written, oldest first.

    Raises:
        DamagedError: An object of ``source`` cannot be read.
    """
    written: list[str] = []
    for sha in reversed(commits_between(source, tip, stop)):
        if not target.has(sha):
            _copy_tree(source, target, source.tree_sha(sha), written)
            _copy(source, target, sha, written)
    return written


def _copy_tree(source: Store, target: Store, sha: str, written: list[str]) -> None:
    if target.has(sha):
        return
    for entry in source.entries(sha):
        if entry.type_str == "tree":
            _copy_tree(source, target, str(entry.id), written)
        elif entry.filemode != COMMIT_LINK:
            _copy(source, target, str(entry.id), written)
    _copy(source, target, sha, written)


def _copy(source: Store, target: Store, sha: str, written: list[str]) -> None:
    if not target.has(sha):
        written.append(target.write(*source.read(sha)))
