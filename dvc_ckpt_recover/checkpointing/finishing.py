"""Finish what a dead process copied aside: the promise of a plain ``make_checkpoint()``.

Failure rule: what is damaged is noted and left out; what cannot be stored now is an error, and
stays where it is, so that it can be tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.checkpointing.commit import Committer
from dvc_ckpt_recover.checkpointing.staged import StagedGoneError, staged_of
from dvc_ckpt_recover.git import LIVE, Refs, Store, closing_of

if TYPE_CHECKING:
    from dvc_ckpt_recover.checkpointing.staged import Staged
    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.runs import Places, RunRecord


def finish_staged(places: Places, record: RunRecord, cache: Cache) -> list[str]:
    """Store all that a run copied aside and did not store, and move its live ref.

    The caller must hold the run's lease, as the only one. May be killed anywhere and repeated.

    Args:
        places: Where the run's files lie.
        record: The run.
        cache: The project's DVC cache.

    Returns:
        The checkpoints made, oldest first; empty when nothing was left.

    Raises:
        OSError: An object could not be written (cache full, read-only).
        UnsafeError: The live ref could not be moved.
    """
    staged, damaged = staged_of(places.staging(record.run_id))
    for error in damaged:
        failures.note("a checkpoint that was copied aside is left out", error)
    if not staged:
        return []
    store = Store(record.main_root)
    tip = Refs(store).get(LIVE + record.run_id)
    if tip and closing_of(store, tip):
        return []
    committer = Committer(record, cache)
    made = (_finish(committer, item) for item in staged)
    return [sha for sha in made if sha]


def _finish(committer: Committer, staged: Staged) -> str | None:
    try:
        return committer.commit(staged, again=True)
    except StagedGoneError as exc:
        failures.note("a checkpoint that was copied aside is left out", exc)
        return None
