"""The rows of ``dvc exp show`` since DVC 2.55: partial, failed, orphaned and running runs.

DVC collects its own rows; here they are changed and those that DVC does not know are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.dvc_api import leftovers, rows
from dvc_ckpt_recover.reporting.facts import contained
from dvc_ckpt_recover.reporting.standing import ALONE, Standing
from dvc_ckpt_recover.runs.survey import RunState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dvc_ckpt_recover.dvc_api.leftovers import Leftover
    from dvc_ckpt_recover.reporting.facts import Facts, Run


class Table(Standing):
    """One table while DVC collects it."""

    def __init__(self, repo: Any, facts: Facts) -> None:  # noqa: ANN401
        super().__init__(repo, facts)
        self._kwargs: dict[str, Any] = {}

    # what DVC takes for running

    def active(self, found: Any, baselines: Collection[str], kwargs: dict[str, Any]) -> None:  # noqa: ANN401
        """Give running rows their checkpoints, and add runs that go on without dvc."""
        self._kwargs = kwargs
        for baseline, ranges in found.items():
            for exp_range in ranges:
                stash_rev = exp_range.revs[0].rev
                self.running.add(stash_rev)
                run = self.facts.runs.get(stash_rev) or self._in_workspace(exp_range, baseline)
                if run is not None:
                    what = f"the checkpoints of {run.name}"
                    contained(what, self._follow, exp_range, run)
        for run in self.facts.runs.values():
            if run.state == RunState.ALONE and run.baseline in baselines:
                contained(f"the run {run.name}", self._add_alone, found, run)

    def _in_workspace(self, exp_range: Any, baseline: str) -> Run | None:  # noqa: ANN401
        """Return the run whose row it is, for the row of the workspace, which does not name it."""
        if exp_range.executor.name != "workspace":
            return None
        for run in self.facts.runs.values():
            if run.in_workspace and run.state == RunState.ALIVE and run.baseline == baseline:
                self.running.add(run.stash_rev)
                return run
        return None

    def look_into(self, stash_rev: str, collect: Callable[[], Any]) -> None:
        """Take the checkpoints of a run of plain DVC 2 from its temp dir.

        Args:
            stash_rev: The run.
            collect: Makes DVC's rows of it, as if it were running.
        """
        leftover = self.leftovers.get(stash_rev)
        if leftover is None or not leftovers.has_commits(leftover):
            return
        found = contained(f"the checkpoints of {leftover.name}", collect, otherwise={})
        for ranges in found.values():
            for exp_range in ranges:
                leftover.revs = exp_range.revs[1:]
                leftover.local = exp_range.executor.local

    def _add_alone(self, found: Any, run: Run) -> None:  # noqa: ANN401
        if run.stash_rev in self.running or self.facts.is_published(run):
            return
        (state,) = rows.states(self.repo, [run.stash_rev], self._kwargs)
        executor = rows.RunExecutor("running", local=self._local(run.stash_rev))
        exp_range = rows.kept_range([state], run.name, executor)
        self._follow(exp_range, run)
        self.running.add(run.stash_rev)
        found.setdefault(run.baseline, []).append(exp_range)

    def _follow(self, exp_range: Any, run: Run) -> None:  # noqa: ANN401
        tip = run.live or self._tip(run)
        shas = self.facts.checkpoints(tip, run.baseline) if tip else []
        there = {state.rev: state for state in exp_range.revs[1:]}
        new = [rev for rev in there if rev not in shas and not self.facts.closing(rev)]
        missing = [sha for sha in shas if sha not in there]
        there.update(zip(missing, rows.states(self.repo, missing, self._kwargs)))
        exp_range.revs[1:] = [there[rev] for rev in (*new, *shas)]
        alone = run.state == RunState.ALONE
        if alone or len(exp_range.revs) > 1:
            old = exp_range.executor
            exp_range.executor = rows.RunExecutor(
                "running",
                old.name,
                old.local,
                cause=ALONE if alone else None,
                stage=run.stage,
                checkpoints=len(exp_range.revs) - 1,
            )

    def _tip(self, run: Run) -> str | None:
        known = self.facts.experiments.get(run.branch) if run.branch else None
        return known.tip if known else None

    # what was published, and what waits for its recovery

    def successful(self, found: Any, baselines: Collection[str], kwargs: dict[str, Any]) -> None:  # noqa: ANN401
        """Make partial experiments of those that say so, and add orphans with checkpoints."""
        self._kwargs = kwargs
        for baseline in baselines:
            ranges = found.setdefault(baseline, [])
            ranges[:] = [self._published(one) for one in ranges if self._is_shown(one)]
        for run in self.kept(baselines):
            exp_range = contained(f"the run {run.name}", self._orphan, run)
            if exp_range is not None:
                found[run.baseline].append(exp_range)
        for leftover in self.leftovers.values():
            if leftover.revs and leftover.baseline in found:
                found[leftover.baseline].append(self._left(leftover))

    def _is_shown(self, exp_range: Any) -> bool:  # noqa: ANN401
        """Return whether no run goes on with this experiment, which has the row then."""
        going_on = (run for run in self.facts.runs.values() if run.branch and run.live)
        tip = exp_range.revs[0].rev
        return not any(
            (known := self.facts.experiments.get(str(run.branch))) is not None
            and known.tip == tip
            and known.name == exp_range.name
            and (run.stash_rev in self.running or run.is_dead)
            for run in going_on
        )

    def _published(self, exp_range: Any) -> Any:  # noqa: ANN401
        error = exp_range.revs[0].error
        if error is not None:
            failures.note(f"the experiment {exp_range.name}", OSError(error.msg))
        tip = exp_range.revs[0].rev
        note = self.facts.closing(tip)
        kept = [state for state in exp_range.revs if not self.facts.closing(state.rev)]
        if note is None or not kept:
            exp_range.revs[:] = kept or exp_range.revs
            return exp_range
        local = self._local(note.task) if note.task else None
        executor = rows.RunExecutor(
            "partial",
            "dvc-task" if local else None,
            local,
            cause=str(note.cause),
            stage=note.cause.stage,
            checkpoints=len(kept),
        )
        return rows.kept_range(kept, exp_range.name, executor)

    def _orphan(self, run: Run) -> Any:  # noqa: ANN401
        shas = self.facts.checkpoints(str(run.live), run.baseline)
        executor = self._executor(run, "partial", len(shas))
        self.orphans.add(run.stash_rev)
        name = self.name_after_recovery(run, shas[0])
        return rows.kept_range(rows.states(self.repo, shas, self._kwargs), name, executor)

    def _left(self, leftover: Leftover) -> Any:  # noqa: ANN401
        executor = rows.RunExecutor(
            "partial", cause=leftovers.CAUSE, checkpoints=len(leftover.revs), local=leftover.local
        )
        self.orphans.add(leftover.stash_rev)
        return rows.kept_range(leftover.revs, leftover.name, executor)

    # what kept nothing

    def failed(self, found: Any, baselines: Collection[str], kwargs: dict[str, Any]) -> None:  # noqa: ANN401
        """Drop tasks that kept something, and add runs in temp dirs that kept nothing."""
        for ranges in found.values():
            ranges[:] = [one for one in ranges if not self.has_other_row(one.revs[0].rev)]
        for run in self.empty(baselines):
            executor = self._executor(run, "failed", None)
            failed = rows.failed_range(self.repo, run.stash_rev, run.name, executor, kwargs)
            found.setdefault(run.baseline, []).append(failed)
        for one in self.leftovers.values():
            if not one.revs and one.baseline in baselines:
                self.orphans.add(one.stash_rev)
                executor = rows.RunExecutor("failed", local=one.local, cause=leftovers.CAUSE)
                failed = rows.failed_range(self.repo, one.stash_rev, one.name, executor, kwargs)
                found.setdefault(one.baseline, []).append(failed)

    def _executor(self, run: Run, state: str, count: int | None) -> Any:  # noqa: ANN401
        if run.state == RunState.ORPHAN:
            self.orphans.add(run.stash_rev)
        local = self._local(run.stash_rev) if run.in_queue else None
        return rows.RunExecutor(
            state,
            "dvc-task" if local else None,
            local,
            cause=str(run.cause),
            stage=run.stage,
            checkpoints=count,
        )

    def _local(self, stash_rev: str) -> Any:  # noqa: ANN401
        return rows.task_process(self.repo.experiments.celery_queue, stash_rev)
