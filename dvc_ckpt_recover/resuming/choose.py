"""Choose the newest checkpoint that is whole, and say of each newer one why it is not taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pygit2

from dvc_ckpt_recover.errors import DamagedError, NotFoundError, RefusedError
from dvc_ckpt_recover.model import CheckpointNote
from dvc_ckpt_recover.model.trailers import READY

if TYPE_CHECKING:
    from dvc_ckpt_recover.git import Store
    from dvc_ckpt_recover.resuming.partial import Partial
    from dvc_ckpt_recover.resuming.verify import Verifier


@dataclass(frozen=True)
class Rejected:
    """A checkpoint that was not taken.

    Attributes:
        sha: Its commit.
        number: Its place in the experiment, from 1.
        reason: Why not.
    """

    sha: str
    number: int
    reason: str


@dataclass(frozen=True)
class Choice:
    """The checkpoint to go on from.

    Attributes:
        sha: Its commit.
        number: Its place in the experiment, from 1.
        state: ``ready`` or ``unproven``.
        rejected: Newer ones that were not taken, newest first.
    """

    sha: str
    number: int
    state: str
    rejected: tuple[Rejected, ...] = ()


def choose(store: Store, partial: Partial, verifier: Verifier, wanted: str | None) -> Choice:
    """Return the newest checkpoint that passes, or exactly the one that is wanted.

    Args:
        store: The main repository.
        partial: The experiment.
        verifier: Reads and hashes what a checkpoint names.
        wanted: A revision given by the user, or None.

    Raises:
        NotFoundError: ``wanted`` is no checkpoint of the experiment.
        DamagedError: None passes, or the wanted one does not.
    """
    numbered = _numbered(store, partial)
    if wanted is not None:
        sha = _resolve(store, partial, wanted, [sha for sha, _ in numbered])
        note = dict(numbered)[sha]
        verifier.check(sha, partial.baseline, trust=True)
        return Choice(sha, note.number, note.state)
    rejected: list[Rejected] = []
    for sha, note in numbered:
        try:
            verifier.check(sha, partial.baseline, trust=note.state == READY)
        except DamagedError as exc:
            rejected.append(Rejected(sha, note.number, str(exc)))
        else:
            return Choice(sha, note.number, note.state, tuple(rejected))
    lines = "".join(f"\n  {one.number} ({one.sha[:7]}): {one.reason}" for one in rejected)
    msg = f"no checkpoint of '{partial.name}' is whole{':' if lines else ''}{lines}"
    raise DamagedError(msg, kept="nothing was changed", todo="dvc fetch may bring objects back")


def _numbered(store: Store, partial: Partial) -> list[tuple[str, CheckpointNote]]:
    """Return the checkpoints, newest first, with their notes; DVC 2's own have no note."""
    shas = partial.checkpoints(store)
    found = []
    for place, sha in zip(range(len(shas), 0, -1), shas):
        note = CheckpointNote.read(store.commit(sha).message)
        found.append((sha, note or CheckpointNote(place, "")))
    return found


def _resolve(store: Store, partial: Partial, wanted: str, known: list[str]) -> str:
    name = partial.ref + wanted[len(partial.name) :] if wanted.startswith(partial.name) else wanted
    sha = None
    for text in (wanted, name):
        try:
            sha = str(store.repo.revparse_single(text).peel(pygit2.Commit).id)
            break
        except (KeyError, ValueError, pygit2.GitError):
            continue
    if sha is None:
        msg = f"there is no revision '{wanted}'"
        raise NotFoundError(msg, todo="the checkpoints are the rows of: dvc exp show")
    if sha == partial.tip and known:
        return known[0]  # the closing commit has the files of the newest
    if sha not in known:
        msg = f"{wanted} is no checkpoint of the experiment '{partial.name}'"
        raise RefusedError(msg, todo="the checkpoints are the rows of: dvc exp show")
    return sha
