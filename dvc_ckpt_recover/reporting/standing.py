"""Where each run stands, for one table: running, gone, kept under which name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.dvc_api import leftovers
from dvc_ckpt_recover.dvc_api.executors import experiment_name
from dvc_ckpt_recover.runs.survey import RunState

if TYPE_CHECKING:
    from collections.abc import Collection

    from dvc_ckpt_recover.dvc_api.leftovers import Leftover
    from dvc_ckpt_recover.reporting.facts import Facts, Run

ALONE = "dvc is dead, the command goes on without it"


class Standing:
    """What is known of the runs while DVC collects one table.

    Args:
        repo: DVC's ``Repo``.
        facts: What this package knows.

    Attributes:
        leftovers: Runs of plain DVC that nobody works for any more, by stash commit.
        orphans: Stash commits of the runs that wait for their recovery and have a row.
        running: Stash commits of the running rows.
    """

    def __init__(self, repo: Any, facts: Facts) -> None:  # noqa: ANN401
        self.repo = repo
        self.facts = facts
        self.leftovers: dict[str, Leftover] = {}
        self.orphans: set[str] = set()
        self.running: set[str] = set()

    def is_running(self, queue: Any, entry: Any) -> bool:  # noqa: ANN401
        """Return whether an entry that DVC takes for running is; a dead one gets another row."""
        run = self.facts.runs.get(entry.stash_rev)
        if run is not None:
            return not (run.is_dead or self._is_closing(run))
        if self.facts.kept_of_task(entry.stash_rev) or leftovers.is_ending(queue, entry.stash_rev):
            return False
        leftover = leftovers.judge(queue, entry)
        if leftover is not None:
            self.leftovers[entry.stash_rev] = leftover
        return leftover is None

    def task_status(self, queue: Any, kind: str, entry: Any, status: str) -> str:  # noqa: ANN401
        """Return what ``queue status`` says of a task.

        Args:
            queue: DVC's queue.
            kind: Where DVC has the entry: active, queued, failed or success.
            entry: The entry.
            status: What DVC says of it.
        """
        if kind == "queued":
            return status
        if self.facts.kept_of_task(entry.stash_rev):
            return "Partial"
        run = self.facts.runs.get(entry.stash_rev)
        if run is None:
            dead = kind == "active" and not self.is_running(queue, entry)
            return "Failed" if dead and entry.stash_rev in self.leftovers else status
        if run.is_dead:
            self.orphans.add(entry.stash_rev)
            return "Partial" if run.live else "Failed"
        return "Running" if run.state == RunState.ALONE else status

    def _is_closing(self, run: Run) -> bool:
        """Return whether a run that nears its end has given its row to what it left."""
        gone = run.temp_dir is not None and not os.path.isdir(run.temp_dir)
        return (gone and run.state != RunState.ELSEWHERE) or self.facts.is_published(run)

    def has_other_row(self, stash_rev: str) -> bool:
        """Return whether a task that DVC takes for failed has a row of ours."""
        run = self.facts.runs.get(stash_rev)
        return (
            (run is not None and run.is_dead)
            or stash_rev in self.running
            or self.facts.kept_of_task(stash_rev) is not None
        )

    def kept(self, baselines: Collection[str]) -> list[Run]:
        """Return the dead runs with checkpoints that are no experiment yet."""
        return [run for run in self.facts.dead(baselines) if run.live]

    def empty(self, baselines: Collection[str]) -> list[Run]:
        """Return the dead runs without checkpoints, of each name the last one."""
        found = {}
        for run in sorted(self.facts.dead(baselines), key=lambda run: run.started):
            if not run.live:
                found[run.baseline, run.name or run.stash_rev] = run
        return list(found.values())

    def name_after_recovery(self, run: Run, newest: str) -> str:
        """Return the name that the recovery of a run will give it.

        Args:
            run: The run.
            newest: Its newest checkpoint.
        """
        if run.branch:
            return experiment_name(run.branch)
        name = run.name or f"exp-{newest[:5]}"
        experiments = self.facts.experiments.values()
        taken = {exp.name for exp in experiments if exp.baseline == run.baseline}
        return name if name not in taken else f"{name}-partial"
