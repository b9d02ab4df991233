"""Rebuild the record of a run from its refs alone: somebody removed or damaged ``.dvc/tmp``.

Failure rule: what the refs do not tell is left open; without a baseline there is no record.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git import Refs, history
from dvc_ckpt_recover.model import CheckpointNote, ClosingNote
from dvc_ckpt_recover.model.trailers import experiment_in
from dvc_ckpt_recover.runs.places import run_id_of
from dvc_ckpt_recover.runs.record import Mode, RunRecord
from dvc_ckpt_recover.runs.temp_dirs import TOMBSTONE

if TYPE_CHECKING:
    from dvc_ckpt_recover.git import Store
    from dvc_ckpt_recover.runs.places import Places

_STASH = re.compile(
    r"dvc-exp:(?P<rev>[0-9a-f]{40}):(?P<baseline>[0-9a-f]{40})"
    r":(?P<name>[^~^:\\?\[\]*\n]*)(:(?P<branch>[^\n]+))?"
)
"""How DVC names a task in its stash: ``ExpStash.MESSAGE_FORMAT``, the same in all versions seen."""


def find_temp_dir(places: Places, run_id: str) -> str:
    """Return where the temp dir of a run is or, when it is gone, was."""
    name = run_id.split("-", 1)[0]
    for folder in (os.path.join(places.exps, "standalone"), places.exps):
        path = os.path.join(folder, name)
        if os.path.isdir(path) or os.path.isdir(path + TOMBSTONE):
            return path
    return os.path.join(places.exps, "standalone", name)


def rebuild_record(
    places: Places, store: Store, run_id: str, live: str | None, stash_rev: str | None
) -> RunRecord | None:
    """Return what the refs of a run tell of it.

    Args:
        places: The project's places.
        store: The main repository.
        run_id: The run.
        live: Its newest ready checkpoint, or None.
        stash_rev: Its stash commit, whose message has baseline, name and branch, or None.

    Returns:
        A record, or None when its baseline cannot be known.
    """
    told = told_by_stash(store, store, stash_rev) or _told_by_chain(store, live)
    if told is None:
        return None
    started = float(store.commit(str(stash_rev or live)).commit_time)
    temp_dir = find_temp_dir(places, run_id)
    record = make_record(
        places,
        store.root,
        temp_dir,
        stash_rev=str(stash_rev or live),
        told=told,
        started=started,
    )
    if run_id.startswith(f"{Mode.WORKSPACE}-"):
        record = record.changed(mode=Mode.WORKSPACE, temp_dir=record.main_root)
    return record.changed(run_id=run_id)


def make_record(  # noqa: PLR0913 - the parts of a record
    places: Places, main_root: str, temp_dir: str, *, stash_rev: str, told: Told, started: float
) -> RunRecord:
    """Return the record of a run whose dvc is dead, from what was found out about it."""
    in_queue = os.path.isdir(temp_dir) and os.path.dirname(temp_dir) == places.exps
    root = os.path.abspath(main_root)
    return RunRecord(
        run_id=run_id_of(temp_dir, stash_rev),
        name=told.name,
        baseline=told.baseline,
        parent=told.parent,
        branch=told.branch,
        stash_rev=stash_rev,
        main_root=root,
        temp_dir=temp_dir,
        dvc_dir=os.path.relpath(os.path.dirname(places.dvc_tmp), root),
        mode=Mode.QUEUE if in_queue else Mode.TEMP,
        started=started,
    )


class Told(NamedTuple):
    """What a run's commits tell: see ``RunRecord`` for the fields."""

    name: str | None
    baseline: str
    parent: str
    branch: str | None


def told_by_stash(store: Store, main: Store, stash_rev: str | None) -> Told | None:
    """Read the message of a stash commit.

    Args:
        store: The repository that has the commit.
        main: The one that knows where the experiment's branch is, if it goes on one.
        stash_rev: The commit, or None.
    """
    if stash_rev is None:
        return None
    try:
        found = _STASH.search(store.commit(stash_rev).message)
        if found is None:
            return None
        branch = found["branch"]
        tip = Refs(main).get(branch) if branch else None
    except DamagedError:
        return None
    return Told(found["name"] or None, found["baseline"], tip or found["rev"], branch)


def _told_by_chain(store: Store, live: str | None) -> Told | None:
    """Read name and baseline off our own commits; those of DVC 2 tell neither."""
    if live is None:
        return None
    name = None
    try:
        for sha in history.commits_between(store, live, None):
            message = store.commit(sha).message
            if CheckpointNote.read(message) is None and ClosingNote.read(message) is None:
                return Told(name, sha, sha, None) if sha != live else None
            name = name or experiment_in(message)
    except DamagedError:
        return None
    return None
