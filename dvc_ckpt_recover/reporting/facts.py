"""What this package knows of the rows of one table; it reads, and never writes.

Failure rule: what cannot be read costs its own row and one line on stderr.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.dvc_api.executors import baseline_of, experiment_name, is_experiment_ref
from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git import LIVE, Refs, Store, closing_of, commits_between
from dvc_ckpt_recover.model import Cause, CheckpointNote, ClosingNote
from dvc_ckpt_recover.runs import Mode, Places
from dvc_ckpt_recover.runs.survey import RunFacts, RunState, survey

if TYPE_CHECKING:
    from collections.abc import Iterable

_closings: dict[str, ClosingNote | None] = {}
_EXPS = "refs/exps/"
DVC_DIED = "dvc was killed"


@dataclass(frozen=True)
class Experiment:
    """A published experiment.

    Attributes:
        ref: Its ref.
        tip: What the ref points to.
        note: The closing note of its tip, or None when it is finished.
        history: Its commits, from the tip back to its baseline.
        tasks: Queue tasks that ended in it without finishing.
    """

    ref: str
    tip: str
    note: ClosingNote | None
    history: frozenset[str]
    tasks: frozenset[str]

    @property
    def name(self) -> str:
        """Return its name."""
        return experiment_name(self.ref)

    @property
    def baseline(self) -> str:
        """Return the commit that it belongs to."""
        return baseline_of(self.ref)


@dataclass(frozen=True)
class Run:
    """A run as the table needs it, with or without a record.

    Attributes:
        run_id: Its id.
        state: See ``RunState``.
        baseline: Commit that its experiment belongs to.
        name: Its name in the table.
        stash_rev: The commit with its code and params; DVC's id of it.
        live: Its newest ready checkpoint, or None.
        branch: Ref of the experiment that it goes on, or None.
        cause: Why it ended, as far as known.
        stage: Stage that was running, as far as known.
        in_queue: Whether it is a queue task.
        in_workspace: Whether it runs in the user's own workspace.
        temp_dir: Where it runs, or None when unknown.
        started: Seconds since 1970; 0 when unknown.
    """

    run_id: str
    state: str
    baseline: str
    name: str | None
    stash_rev: str
    live: str | None
    branch: str | None
    cause: Cause
    stage: str | None
    in_queue: bool
    temp_dir: str | None
    started: float = 0.0
    in_workspace: bool = False

    @property
    def is_dead(self) -> bool:
        """Return whether nobody works for it any more."""
        return self.state in (RunState.ORPHAN, RunState.FAILED)


class Facts:
    """Runs and experiments of one project, each read at most once.

    Args:
        git_root: Work tree of the main Git repository.
        tmp_dir: The project's ``.dvc/tmp``.
    """

    def __init__(self, git_root: str, tmp_dir: str) -> None:
        self.store = Store(git_root)
        self.places = Places(tmp_dir)
        self._runs: dict[str, Run] | None = None
        self._experiments: dict[str, Experiment] | None = None

    def read(self) -> None:
        """Read runs and experiments, and say what of them cannot be read."""
        _ = self.runs, self.experiments

    def closing(self, sha: str) -> ClosingNote | None:
        """Return the closing note of a commit, or None."""
        if sha not in _closings:
            _closings[sha] = closing_of(self.store, sha)
        return _closings[sha]

    @property
    def runs(self) -> dict[str, Run]:
        """Return the runs of this project: stash commit -> run."""
        if self._runs is None:
            found = contained("the runs", survey, self.places, self.store, otherwise=[])
            read = (contained(f"the run {one.run_id}", self._read_run, one) for one in found)
            self._runs = {run.stash_rev: run for run in read if run is not None}
        return self._runs

    @property
    def experiments(self) -> dict[str, Experiment]:
        """Return the published experiments of the whole repository: ref -> experiment."""
        if self._experiments is None:
            refs = contained("the experiments", self._read_refs, otherwise={})
            self._experiments = {}
            for ref, tip in refs.items():
                if is_experiment_ref(ref):
                    what = f"the experiment {experiment_name(ref)}"
                    found = contained(what, self._read_experiment, ref, tip)
                    if found is not None:
                        self._experiments[ref] = found
        return self._experiments

    def kept_of_task(self, stash_rev: str) -> Experiment | None:
        """Return the experiment that a queue task ended in without finishing, or None."""
        return next((exp for exp in self.experiments.values() if stash_rev in exp.tasks), None)

    def history(self, tip: str, baseline: str) -> list[str]:
        """Return the commits from ``tip`` back to ``baseline``, newest first."""
        return commits_between(self.store, tip, baseline)

    def checkpoints(self, tip: str, baseline: str) -> list[str]:
        """Return the checkpoints from ``tip`` back to ``baseline``, newest first."""
        return [sha for sha in commits_between(self.store, tip, baseline) if not self.closing(sha)]

    def stage_of(self, sha: str) -> str | None:
        """Return the stage that a checkpoint says it is of, or None."""
        try:
            note = CheckpointNote.read(self.store.commit(sha).message)
        except (DamagedError, UnicodeError):
            return None
        return note.stage if note and note.stage else None

    def is_ours(self, sha: str) -> bool:
        """Return whether a commit is a checkpoint or a closing commit of this package."""
        try:
            message = self.store.commit(sha).message
        except (DamagedError, UnicodeError):
            return False
        return CheckpointNote.read(message) is not None or ClosingNote.read(message) is not None

    def _read_refs(self) -> dict[str, str]:
        refs = Refs(self.store)
        found = refs.list(_EXPS)
        for ref in sorted(set(refs.loose(_EXPS)) - set(found)):
            if is_experiment_ref(ref):
                failures.note("an experiment", DamagedError(f"the ref {ref} cannot be read"))
        return found

    def _read_experiment(self, ref: str, tip: str) -> Experiment:
        history = frozenset(commits_between(self.store, tip, baseline_of(ref)))
        notes = (self.closing(sha) for sha in history)
        tasks = frozenset(note.task for note in notes if note and note.task)
        return Experiment(ref, tip, self.closing(tip), history, tasks)

    def _read_run(self, facts: RunFacts) -> Run | None:
        record = facts.record
        if facts.error:
            failures.note(f"the run {facts.run_id}", DamagedError(facts.error))
        if record is None:
            return None
        return Run(
            run_id=facts.run_id,
            state=facts.state,
            baseline=record.baseline,
            name=record.name,
            stash_rev=record.stash_rev,
            live=facts.live,
            branch=record.branch,
            cause=self._cause(facts, record.cause),
            stage=self._stage(record.cause, facts.live),
            in_queue=record.mode == Mode.QUEUE,
            in_workspace=record.mode == Mode.WORKSPACE,
            temp_dir=record.temp_dir,
            started=record.started,
        )

    def _cause(self, facts: RunFacts, told: str) -> Cause:
        if facts.live is None:
            try:
                Refs(self.store).get(LIVE + facts.run_id)
            except DamagedError as exc:
                failures.note(f"the run {facts.run_id}", exc)
                return Cause("its checkpoints cannot be read")
        return Cause.parse(told or DVC_DIED)

    def _stage(self, cause: str, live: str | None) -> str | None:
        named = Cause.parse(cause).stage if cause else None
        return named or (self.stage_of(live) if live else None)

    def dead(self, baselines: Iterable[str]) -> list[Run]:
        """Return the runs of some baselines that nobody works for and that need a row.

        One that was published already, or whose name a newer run or an experiment has taken
        after it left nothing, needs none.
        """
        wanted = set(baselines)
        found = [run for run in self.runs.values() if run.is_dead and run.baseline in wanted]
        return [run for run in found if not self._has_other_row(run)]

    def _has_other_row(self, run: Run) -> bool:
        if run.live is not None:
            return self.is_published(run)
        others = [other for other in self.runs.values() if other.live or not other.is_dead]
        taken = {(exp.baseline, exp.name) for exp in self.experiments.values()}
        names = {(other.baseline, other.name) for other in others}
        return (run.baseline, run.name) in taken | names

    def is_published(self, run: Run) -> bool:
        """Return whether an experiment has all of a run's checkpoints."""
        return any(run.live in exp.history for exp in self.experiments.values())


def contained(
    what: str,
    action: Callable[..., Any],
    *args: Any,  # noqa: ANN401
    otherwise: Any = None,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Return ``action(*args)``; when it fails, say so in one line and return ``otherwise``."""
    try:
        return action(*args)
    except Exception as exc:  # noqa: BLE001
        failures.note(f"{what} cannot be shown", exc)
        return otherwise
