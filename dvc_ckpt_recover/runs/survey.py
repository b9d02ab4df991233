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
from dvc_ckpt_recover.runs.process import holds_open
from dvc_ckpt_recover.runs.rebuild import rebuild_record
from dvc_ckpt_recover.runs.record import Ended, Mode, RunRecord, load_record
from dvc_ckpt_recover.runs.temp_dirs import TOMBSTONE

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
    """Its record is damaged or gone, and its refs do not tell enough."""
    EMPTY = "empty"
    """A temp dir of plain DVC that holds nothing."""


@dataclass(frozen=True)
class RunFacts:
    """One run.

    Attributes:
        run_id: Its id.
        state: See ``RunState``.
        record: Its record, read or rebuilt from its refs, or None when neither can be.
        live: Its newest ready checkpoint, or None.
        stash_rev: The commit with its code and params, or None.
        error: Why its record cannot be read, or empty.
        is_rebuilt: Whether the record was made from its refs or its temp dir.
        leftover: Where its temp dir is, when it has neither record nor refs; else empty.
    """

    run_id: str
    state: str
    record: RunRecord | None = None
    live: str | None = None
    stash_rev: str | None = None
    error: str = ""
    is_rebuilt: bool = False
    leftover: str = ""

    @property
    def has_temp_dir(self) -> bool:
        """Return whether its temp dir is still there, under its own name."""
        return self.record is not None and os.path.isdir(self.record.temp_dir)


def survey(places: Places, store: Store) -> list[RunFacts]:
    """Return all runs of the project that have a record or a ref, sorted by id."""
    refs = Refs(store)
    live = {ref[len(LIVE) :]: sha for ref, sha in refs.list(LIVE).items()}
    stashes = {ref[len(RUNS) :]: sha for ref, sha in refs.list(RUNS).items()}
    recorded = places.runs()
    own = {run_id for run_id in (*live, *stashes) if places.owns(run_id)}
    ids = sorted({*recorded, *own})
    return [_facts(places, store, run_id, live.get(run_id), stashes.get(run_id)) for run_id in ids]


def look_again(places: Places, store: Store, run_id: str) -> RunFacts | None:
    """Return a run whose lease the caller holds as it is now, or None when nothing is left of it.

    That lease does not count: the run is not alive.
    """
    refs = Refs(store)
    live, stash_rev = refs.get(LIVE + run_id), refs.get(RUNS + run_id)
    if live is None and stash_rev is None and not os.path.exists(places.record(run_id)):
        return None
    return _facts(places, store, run_id, live, stash_rev, is_claimed=True)


def _facts(  # noqa: PLR0913
    places: Places,
    store: Store,
    run_id: str,
    live: str | None,
    stash_rev: str | None,
    *,
    is_claimed: bool = False,
) -> RunFacts:
    error = ""
    try:
        record = load_record(places, run_id)
        state = _state(places, record, is_claimed=is_claimed)
        return RunFacts(run_id, state, record, live, stash_rev)
    except FileNotFoundError:
        pass
    except (DamagedError, OSError) as exc:
        error = str(exc)
    rebuilt = rebuild_record(places, store, run_id, live, stash_rev)
    if not is_claimed and _is_held(places, run_id):
        state = RunState.ALIVE
    else:
        state = RunState.ORPHAN if rebuilt else RunState.UNREADABLE
    error = error or ("" if rebuilt else "it has no record, and its refs do not tell its baseline")
    return RunFacts(run_id, state, rebuilt, live, stash_rev, error, is_rebuilt=True)


def _is_held(places: Places, run_id: str) -> bool:
    """Return whether a lease is held, even one whose file was removed."""
    return Lease(places, run_id).is_held() or holds_open(os.path.basename(places.lease(run_id)))


def _has_files(record: RunRecord) -> bool:
    """Return whether the removal of a temp dir was not begun, or killed half-way."""
    if record.mode == Mode.WORKSPACE:
        return False
    return any(os.path.isdir(record.temp_dir + suffix) for suffix in ("", TOMBSTONE))


def _state(places: Places, record: RunRecord, *, is_claimed: bool) -> str:
    if record.ended == Ended.FAILED and not _has_files(record):
        return RunState.FAILED
    if record.process is not None and not record.process.is_here():
        return RunState.ELSEWHERE
    if is_claimed or not Lease(places, record.run_id).is_held():
        return RunState.ORPHAN
    dvc_lives = record.process is not None and record.process.is_alive()
    return RunState.ALIVE if dvc_lives else RunState.ALONE
