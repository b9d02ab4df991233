"""Finish the checkpoints that were copied aside when dvc died: the trainer was told they are safe.

Failure rule: what cannot be stored now is an error and stays; what is damaged is left out, and said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.checkpointing import Committer, staged_of
from dvc_ckpt_recover.errors import DamagedError

if TYPE_CHECKING:
    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.runs import Places, RunRecord


def finish_staged(places: Places, record: RunRecord, cache: Cache) -> set[str]:
    """Store what was copied aside, oldest first, and move the live ref on.

    Returns:
        The DVC objects that were hashed while they were stored.

    Raises:
        OSError: One could not be stored (cache full, read-only).
        UnsafeError: The live ref could not be moved.
    """
    staged, damaged = staged_of(places.staging(record.run_id))
    committer = Committer(record, cache)
    for one in staged:
        try:
            committer.commit(one)
        except (DamagedError, FileNotFoundError) as exc:
            damaged.append(DamagedError(str(exc)))
    for error in damaged:
        failures.note(f"a checkpoint of {record.name or record.run_id} was left out", error)
    return committer.proven
