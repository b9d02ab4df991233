"""The receipt of a run: written once all of it is proven, it allows the removal.

Failure rule: a receipt that cannot be read, or whose ref no longer holds what it says, counts for
nothing; the pipeline then starts over, which is safe.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dvc_ckpt_recover.durable import read_json, write_json
from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git import Refs, Store
from dvc_ckpt_recover.recovery.ending import Ending

if TYPE_CHECKING:
    from dvc_ckpt_recover.runs import Places, RunRecord

_FIELDS = ("name", "ended", "ref", "sha", "checkpoints", "cause", "wanted", "carried")


def write_receipt(places: Places, record: RunRecord, ending: Ending, objects: int) -> None:
    """Note that ``ending`` was proven, with the number of objects. Raises OSError."""
    places.make()
    told = {field: getattr(ending, field) for field in _FIELDS}
    write_json(places.receipt(record.run_id), {**told, "objects": objects, "time": time.time()})


def read_receipt(places: Places, record: RunRecord) -> Ending | None:
    """Return the ending that was proven before, if what it names is still in the repository."""
    try:
        value = read_json(places.receipt(record.run_id))
        told = {field: value[field] for field in _FIELDS}
        ref, sha = told["ref"], told["sha"]
        if ref is not None:
            store = Store(record.main_root)
            held = Refs(store).get(ref)
            if held is None or not store.is_ancestor(sha, held):
                return None
        return Ending(**told, skipped=record.skipped)
    except (OSError, DamagedError, KeyError, TypeError, ValueError):
        return None
