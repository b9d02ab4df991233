"""The rows of ``dvc exp show`` before DVC 2.55, see ``table`` for the later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.dvc_api import leftovers, rows_v2
from dvc_ckpt_recover.reporting.facts import contained
from dvc_ckpt_recover.reporting.standing import ALONE, Standing
from dvc_ckpt_recover.runs.survey import RunState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dvc_ckpt_recover.reporting.facts import Experiment, Run

Rows = dict[str, dict[str, Any]]


class TableV2(Standing):
    """One table of DVC before 2.55."""

    def running_entries(self, queue: Any, keys: Iterable[str]) -> Iterable[Any]:  # noqa: ANN401
        """Yield the entries of temp dirs in which a run is at work.

        DVC's own test was the wrong way round in 2.31: it listed those that had ended.
        """
        for key in keys:
            entry = contained(f"the run {key[:7]}", rows_v2.queue_entry, queue, key)
            if entry is not None and self.is_running(queue, entry):
                yield entry

    def finish(self, found: dict[str, Rows], *, hide_failed: bool) -> None:
        """Change DVC's rows, and add those that it does not know."""
        for baseline, rows in found.items():
            if baseline == "workspace":
                continue
            for exp in list(self.facts.experiments.values()):
                if exp.baseline == baseline and exp.tip in rows:
                    contained(f"the experiment {exp.name}", self._published, rows, exp)
            for stash_rev in [rev for rev in rows if self._is_doubled(rows[rev], rev)]:
                del rows[stash_rev]
            for run in self.facts.runs.values():
                if run.baseline == baseline:
                    contained(f"the run {run.name}", self._run, rows, run)
            if not hide_failed:
                self._failed(rows, baseline)

    def _is_doubled(self, row: dict[str, Any], rev: str) -> bool:
        failed = (row.get("data") or {}).get("status") == rows_v2.FAILED
        return failed and self.has_other_row(rev)

    def _published(self, rows: Rows, exp: Experiment) -> None:
        shas = self.facts.history(exp.tip, exp.baseline)
        kept = [sha for sha in shas if sha in rows and not self.facts.closing(sha)]
        if not kept or len(kept) == len(shas):
            return
        for sha in set(shas) - set(kept):
            rows.pop(sha, None)
        rows_v2.link(rows, kept, exp.baseline)
        if exp.note is None:
            return
        note = exp.note
        local = self._local(note.task) if note.task else None
        rows_v2.mark(
            rows,
            kept,
            status=rows_v2.PARTIAL,
            name=exp.name,
            executor="dvc-task" if local else None,
            local=local,
            cause=str(note.cause),
            stage=note.cause.stage,
            checkpoints=len(kept),
        )

    def _run(self, rows: Rows, run: Run) -> None:
        waits = run.is_dead and run.live and run in self.kept([run.baseline])
        if run.is_dead and not waits:
            return
        known = self.facts.experiments.get(run.branch) if run.branch else None
        tip = run.live or (known.tip if known else None)
        shas = self.facts.checkpoints(tip, run.baseline) if tip else []
        if known:
            for sha in self.facts.history(known.tip, known.baseline):
                rows.pop(sha, None)
        own = rows.pop(run.stash_rev, None)
        if not run.is_dead and own is None and run.state != RunState.ALONE:
            return
        if not shas:
            self._alone_without(rows, run, own)
            return
        for sha in shas:
            rows[sha] = rows_v2.commit_row(self.repo, sha, "Success")
        rows_v2.link(rows, shas, run.baseline)
        self._mark_run(rows, run, shas, own)

    def _alone_without(self, rows: Rows, run: Run, own: dict[str, Any] | None) -> None:
        rows[run.stash_rev] = own or rows_v2.commit_row(self.repo, run.stash_rev, rows_v2.RUNNING)
        self._mark_run(rows, run, [run.stash_rev], own)

    def _mark_run(self, rows: Rows, run: Run, shas: list[str], own: dict[str, Any] | None) -> None:
        executor = ((own or {}).get("data") or {}).get("executor")
        alone = run.state == RunState.ALONE
        if run.is_dead:
            self.orphans.add(run.stash_rev)
            executor = None
        elif alone:
            executor = f"{executor or ('dvc-task' if run.in_queue else 'temp')} (without dvc)"
        local = self._local(run.stash_rev) if run.in_queue else None
        name = self.name_after_recovery(run, shas[0]) if run.is_dead else run.name
        is_stash = shas == [run.stash_rev]
        rows_v2.mark(
            rows,
            shas,
            status=rows_v2.PARTIAL if run.is_dead else rows_v2.RUNNING,
            name=name,
            executor=executor or ("dvc-task" if local else None),
            local=local,
            cause=str(run.cause) if run.is_dead else (ALONE if alone else None),
            stage=run.stage,
            checkpoints=0 if is_stash else len(shas),
        )

    def _failed(self, rows: Rows, baseline: str) -> None:
        left = [one for one in self.leftovers.values() if one.baseline == baseline]
        for run in self.empty([baseline]):
            if run.state == RunState.ORPHAN:
                self.orphans.add(run.stash_rev)
            name = run.name
            rows[run.stash_rev] = rows_v2.failed_row(self.repo, run.stash_rev, str(run.cause), name)
        for one in left:
            self.orphans.add(one.stash_rev)
            name = one.name
            rows[one.stash_rev] = rows_v2.failed_row(
                self.repo, one.stash_rev, leftovers.CAUSE, name
            )

    def _local(self, stash_rev: str) -> Any:  # noqa: ANN401
        return rows_v2.task_process(self.repo.experiments.celery_queue, stash_rev)
