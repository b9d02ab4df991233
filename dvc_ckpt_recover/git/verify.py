"""Prove that a repository holds a branch: read and hash each object from its tip to a commit.

Failure rule: the first object that is missing or has other bytes is a DamagedError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover.git.history import commits_between
from dvc_ckpt_recover.git.transfer import COMMIT_LINK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.git.store import Store


def new_objects(store: Store, tip: str, stop: str | None) -> list[str]:
    """Return the objects from ``tip`` to ``stop`` that the commit before each does not have.

    Raises:
        DamagedError: A commit or tree on the way cannot be read.
    """
    found: dict[str, None] = {}
    for sha in commits_between(store, tip, stop):
        commit = store.commit(sha)
        found[sha] = None
        parent = str(commit.parent_ids[0]) if commit.parent_ids else None
        known = store.tree_sha(parent) if parent and store.has(parent) else None
        for name in _tree_objects(store, str(commit.tree_id), known):
            found[name] = None
    return list(found)


def _tree_objects(store: Store, sha: str, known: str | None) -> Iterator[str]:
    if sha == known:
        return
    yield sha
    before = {}
    if known:
        before = {entry.name: entry for entry in store.entries(known)}
    for entry in store.entries(sha):
        old = before.get(entry.name)
        if entry.filemode == COMMIT_LINK or (old is not None and old.id == entry.id):
            continue
        if entry.type_str == "tree":
            same = str(old.id) if old is not None and old.type_str == "tree" else None
            yield from _tree_objects(store, str(entry.id), same)
        else:
            yield str(entry.id)


def new_in_tree(store: Store, tree: str, known: str) -> list[str]:
    """Return the objects of a tree that the tree ``known`` does not have. Raises DamagedError."""
    return list(_tree_objects(store, tree, known))


def verify_history(store: Store, tip: str, stop: str | None) -> list[str]:
    """Read and hash every new object from ``tip`` to ``stop``.

    Returns:
        The names of the objects that were proven.

    Raises:
        DamagedError: One of them is missing or damaged.
    """
    proven = new_objects(store, tip, stop)
    for sha in proven:
        store.read(sha)
    return proven


def verify_tree(store: Store, commit: str) -> dict[str, str]:
    """Read and hash every file of one commit.

    Returns:
        Path -> name of the object.

    Raises:
        DamagedError: One of them is missing or damaged.
    """
    found: dict[str, str] = {}
    _verify_folder(store, store.tree_sha(commit), "", found)
    return found


def _verify_folder(store: Store, sha: str, prefix: str, found: dict[str, str]) -> None:
    for entry in store.entries(sha):
        path = f"{prefix}{entry.name}"
        if entry.type_str == "tree":
            _verify_folder(store, str(entry.id), f"{path}/", found)
        elif entry.filemode != COMMIT_LINK:
            store.read(str(entry.id))
            found[path] = str(entry.id)
