"""Recover runs whose dvc died: claim, finish what was staged, run the pipeline, remove, settle.

Two recoveries at once exclude each other by the run's lease; one that is killed anywhere leaves a
state from which the next goes on.

Failure rule: what goes wrong with one run is its outcome's reason; the others are recovered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.checkpointing.finishing import finish_staged
from dvc_ckpt_recover.dvc_api import executors
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.errors import RecoverError, RefusedError, UnsafeError
from dvc_ckpt_recover.git import Store
from dvc_ckpt_recover.recovery import Evidence, end_run, settle
from dvc_ckpt_recover.recovery.removal import remove_aside, tombstone_of
from dvc_ckpt_recover.runs import Lease, Places
from dvc_ckpt_recover.runs.size import disk_usage
from dvc_ckpt_recover.runs.survey import RunFacts, RunState, look_again, survey

if TYPE_CHECKING:
    from dvc_ckpt_recover.recovery import Ending
    from dvc_ckpt_recover.runs import RunRecord

RECOVERABLE = (RunState.ORPHAN, RunState.UNREADABLE)


@dataclass(frozen=True)
class Recovered:
    """What became of one run.

    Attributes:
        name: The experiment's name, or the run's id.
        ending: How it was brought in, or None when it was not, or by somebody else.
        error: Why it could not be recovered, one line, or empty.
        freed: Bytes of disk.
    """

    name: str
    ending: Ending | None = None
    error: str = ""
    freed: int = 0


class Recovery:
    """Recovers the runs of one project.

    Args:
        repo: DVC's ``Repo``.

    Raises:
        RefusedError: The project is not in a Git repository.
    """

    def __init__(self, repo: Any) -> None:  # noqa: ANN401
        root = executors.main_root_of(repo)
        if root is None:
            msg = "this DVC project has no Git repository, so it has no experiments"
            raise RefusedError(msg)
        self.places = Places(str(repo.tmp_dir))
        self.store = Store(root)
        self._repo = repo

    def runs(self) -> list[RunFacts]:
        """Return all runs of the project; nothing is written."""
        return survey(self.places, self.store)

    def recover(self, facts: RunFacts, *, force: bool = False) -> Recovered:
        """Recover one run. ``force`` takes a silent run of another host for dead."""
        name = name_of(facts)
        try:
            refuse_living(facts, force=force)
            self.places.make()
            lease = Lease(self.places, facts.run_id)
            if not lease.claim():
                return Recovered(name, error="it is alive, or another recovery is at it")
            try:
                return self._recover_claimed(facts.run_id, name, lease)
            finally:
                lease.release()
        except (RecoverError, OSError) as exc:
            return Recovered(name, error=str(exc))

    def _recover_claimed(self, run_id: str, name: str, lease: Lease) -> Recovered:
        facts = look_again(self.places, self.store, run_id)
        if facts is None or facts.state == RunState.FAILED:  # somebody else was faster
            lease.remove()
            return Recovered(name)
        record = facts.record
        if record is None:
            return Recovered(name, error=facts.error)
        if facts.is_rebuilt:
            record.save(self.places)
        cache = Cache(self._repo)
        evidence = Evidence(cache, finish=lambda: finish_staged(self.places, record, cache))
        ending = end_run(self.places, record, evidence)
        if not ending.is_safe:
            return Recovered(name, error=ending.why_kept)
        return self._remove(record, ending, lease)

    def _remove(self, record: RunRecord, ending: Ending, lease: Lease) -> Recovered:
        size = disk_usage(tombstone_of(record.temp_dir))
        executors.note_end(record.infofile, success=ending.is_success)
        remove_aside(record.temp_dir, self.places)
        settle(self.places, record, ending, lease)
        return Recovered(ending.name, ending, freed=size)


def name_of(facts: RunFacts) -> str:
    """Return what the user calls a run."""
    return (facts.record.name if facts.record else None) or facts.run_id


def refuse_living(facts: RunFacts, *, force: bool) -> None:
    """Raise RefusedError or UnsafeError when a run must not be recovered now."""
    if facts.state in (RunState.ALIVE, RunState.ALONE):
        raise RefusedError("it is alive", todo="end it first, or wait")
    if facts.state == RunState.ELSEWHERE and not force:
        host = facts.record.process.host if facts.record and facts.record.process else "another"
        raise UnsafeError(f"it was started on the host {host}", todo="recover it there, or --force")
