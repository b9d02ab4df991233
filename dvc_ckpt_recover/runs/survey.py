"""Which runs there are and in what state, from records, leases and refs; it writes nothing.

Failure rule: one unreadable run is one entry with its error; the others are still listed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git import LIVE, RUNS, Refs
from dvc_ckpt_recover.runs.lease import Lease
from dvc_ckpt_recover.runs.record import Ended, RunRecord, load_record

if TYPE_CHECKING:
    from dvc_ckpt_recover.git import Store
    from dvc_ckpt_recover.runs.places import Places


class RunState:
    """In what state a run is."""

    ALIVE = "alive"
    """Its dvc runs."""
    ALONE = "alone"
    """Its dvc is dead and its trainer goes on."""
    ELSEWHERE = "elsewhere"
    """It was started on another host, whose processes cannot be seen from here."""
    ORPHAN = "orphan"
    """It has ended and nobody brought in what it kept."""
    FAILED = "failed"
    """It ended and kept nothing; only its row is left."""
    UNREADABLE = "unreadable"
    """Its record is damaged."""


@dataclass(frozen=True)
class RunFacts:
    """One run.

    Attributes:
        run_id: Its id.
        state: See ``RunState``.
        record: Its record, or None when there is none that can be read.
        live: Its newest ready checkpoint, or None.
        stash_rev: The commit with its code and params, or None.
        error: Why its record cannot be read, or empty.
    """

    run_id: str
    state: str
    record: RunRecord | None = None
    live: str | None = None
    stash_rev: str | None = None
    error: str = ""

    @property
    def has_temp_dir(self) -> bool:
        """Return whether its temp dir is still there, under its own name."""
        return self.record is not None and os.path.isdir(self.record.temp_dir)


def survey(places: Places, store: Store) -> list[RunFacts]:
    """Return all runs that have a record or a live ref, sorted by id."""
    refs = Refs(store)
    live = {ref[len(LIVE) :]: sha for ref, sha in refs.list(LIVE).items()}
    stashes = {ref[len(RUNS) :]: sha for ref, sha in refs.list(RUNS).items()}
    ids = sorted({*places.runs(), *live, *stashes})
    return [_facts(places, run_id, live.get(run_id), stashes.get(run_id)) for run_id in ids]


def _facts(places: Places, run_id: str, live: str | None, stash_rev: str | None) -> RunFacts:
    try:
        record = load_record(places, run_id)
    except FileNotFoundError:
        return RunFacts(run_id, RunState.ORPHAN, None, live, stash_rev)
    except (DamagedError, OSError) as exc:
        return RunFacts(run_id, RunState.UNREADABLE, None, live, stash_rev, str(exc))
    return RunFacts(run_id, _state(places, record), record, live, stash_rev)


def _state(places: Places, record: RunRecord) -> str:
    if record.ended == Ended.FAILED:
        return RunState.FAILED
    if record.process is not None and not record.process.is_here():
        return RunState.ELSEWHERE
    if not Lease(places, record.run_id).is_held():
        return RunState.ORPHAN
    dvc_lives = record.process is not None and record.process.is_alive()
    return RunState.ALIVE if dvc_lives else RunState.ALONE
