"""Forget runs: what is left of those whose rows the user removed.

Failure rule: checkpoints that no experiment holds are never dropped here.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from dvc_ckpt_recover.durable import remove_file
from dvc_ckpt_recover.git import LIVE, RUNS, Refs
from dvc_ckpt_recover.runs import Lease
from dvc_ckpt_recover.runs.survey import RunState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from dvc_ckpt_recover.reporting.facts import Experiment, Facts, Run


def failed_runs(facts: Facts) -> list[Run]:
    """Return the runs that kept nothing and are listed until they are removed."""
    return [run for run in facts.runs.values() if run.state == RunState.FAILED]


def by_name(runs: Iterable[Run], names: Collection[str]) -> dict[str, list[Run]]:
    """Return the runs called one of ``names``; the start of its stash commit names one too."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        for name in names:
            if name == run.name or (len(name) >= 7 and run.stash_rev.startswith(name)):  # noqa: PLR2004
                found.setdefault(name, []).append(run)
    return found


def label(run: Run) -> str:
    """Return what DVC calls a run that was removed."""
    return run.name or run.stash_rev[:7]


def forget(facts: Facts, runs: Iterable[Run]) -> list[str]:
    """Remove record, refs and lease of runs that nobody works for.

    Returns:
        Their names.

    Raises:
        UnsafeError: Git's lock on a ref stays held; what was not removed can be removed again.
    """
    refs = Refs(facts.store)
    forgotten = []
    for run in runs:
        lease = Lease(facts.places, run.run_id)
        if lease.is_held():
            continue
        refs.delete(LIVE + run.run_id)
        refs.delete(RUNS + run.run_id)
        remove_file(facts.places.record(run.run_id))
        remove_file(facts.places.receipt(run.run_id))
        shutil.rmtree(facts.places.staging(run.run_id), ignore_errors=True)
        lease.remove()
        forgotten.append(label(run))
    if forgotten:
        facts.places.drop_empty()
    return forgotten


def held_by(facts: Facts, removed: Iterable[Experiment]) -> list[Run]:
    """Return the dead runs whose checkpoints all were part of experiments that were removed."""
    gone = list(removed)
    return [
        run
        for run in facts.runs.values()
        if run.is_dead and any(run.live in exp.history for exp in gone)
    ]
