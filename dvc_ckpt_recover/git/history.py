"""Read what a run's commits say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pygit2

from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git.refs import Refs
from dvc_ckpt_recover.model import CheckpointNote, ClosingNote

if TYPE_CHECKING:
    from dvc_ckpt_recover.git.store import Store


def commits_between(store: Store, tip: str, stop: str | None) -> list[str]:
    """Return the commits from ``tip`` (first) along first parents to ``stop`` (left out).

    Raises:
        DamagedError: A commit on the way cannot be read.
    """
    found = []
    sha: str | None = tip
    while sha and sha != stop:
        commit = store.commit(sha)
        found.append(sha)
        sha = str(commit.parent_ids[0]) if commit.parent_ids else None
        if sha and stop is None and not store.has(sha):
            break
    return found


def closing_of(store: Store, sha: str) -> ClosingNote | None:
    """Return the closing note of a commit, or None."""
    try:
        return ClosingNote.read(store.commit(sha).message)
    except (DamagedError, pygit2.GitError, UnicodeError):
        return None


def partial_of_task(store: Store, task: str) -> tuple[str, ClosingNote] | None:
    """Return the experiment ref that the queue's ``task`` left, and its note, or None."""
    for ref, sha in Refs(store).list("refs/exps/").items():
        note = closing_of(store, sha)
        if note is not None and note.task == task:
            return ref, note
    return None


def checkpoints_of(store: Store, tip: str, stop: str | None) -> list[str]:
    """Return the checkpoint commits from ``tip`` to ``stop``, newest first.

    Native checkpoints of DVC 2 carry no trailers, so every commit that closes nothing counts.
    """
    return [sha for sha in commits_between(store, tip, stop) if closing_of(store, sha) is None]


def last_number(store: Store, tip: str, stop: str | None) -> int:
    """Return the number of the newest numbered checkpoint between ``tip`` and ``stop``, or 0."""
    sha: str | None = tip
    while sha and sha != stop and store.has(sha):  # mostly the first: no list of the whole run
        commit = store.commit(sha)
        note = CheckpointNote.read(commit.message)
        if note:
            return note.number
        sha = str(commit.parent_ids[0]) if commit.parent_ids else None
    return 0
