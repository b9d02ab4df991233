"""Recover runs whose dvc died: claim, finish what was staged, run the pipeline, remove, settle.

Two recoveries at once exclude each other by the run's lease; one that is killed anywhere leaves a
state from which the next goes on.

Failure rule: what goes wrong with one run is its outcome's reason; the others are recovered.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.activation.telling import tell_later
from dvc_ckpt_recover.checkpointing import finish_staged, salvage
from dvc_ckpt_recover.durable import remove_file
from dvc_ckpt_recover.dvc_api import executors
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.dvc_api.queue import close_task
from dvc_ckpt_recover.errors import DamagedError, RecoverError, RefusedError, UnsafeError
from dvc_ckpt_recover.git import LIVE, RUNS, Refs, Store
from dvc_ckpt_recover.recovery import Evidence, end_run, settle
from dvc_ckpt_recover.recovery.adopt import adopt
from dvc_ckpt_recover.recovery.leftovers import Infos, find_leftovers
from dvc_ckpt_recover.recovery.mend import drop_empty_objects, mend_run
from dvc_ckpt_recover.recovery.removal import remove_aside, set_aside, tombstone_of
from dvc_ckpt_recover.runs import Ended, Lease, Mode, Places
from dvc_ckpt_recover.runs.heartbeat import SILENT
from dvc_ckpt_recover.runs.size import disk_usage, humanize
from dvc_ckpt_recover.runs.survey import RunFacts, RunState, look_again, survey
from dvc_ckpt_recover.runs.temp_dirs import TOMBSTONE

if TYPE_CHECKING:
    from dvc_ckpt_recover.recovery import Ending
    from dvc_ckpt_recover.runs import RunRecord

RECOVERABLE = (RunState.ORPHAN, RunState.UNREADABLE, RunState.EMPTY)


@dataclass(frozen=True)
class Recovered:
    """What became of one run.

    Attributes:
        name: The experiment's name, or the run's id.
        ending: How it was brought in, or None when it was not, or by somebody else.
        error: Why it could not be recovered, one line, or empty.
        freed: Bytes of disk.
        removed: Whether all of it was a folder that held nothing.
    """

    name: str
    ending: Ending | None = None
    error: str = ""
    freed: int = 0
    removed: bool = False


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
        """Return all runs of the project, and what plain DVC left; nothing is written."""
        found = survey(self.places, self.store)
        known = {facts.record.temp_dir for facts in found if facts.record}
        left = find_leftovers(self.places, self.store, known)
        told = {facts.run_id for facts in left if facts.record}  # a damaged record tells less
        return [facts for facts in found if facts.run_id not in told] + left

    def recover(self, facts: RunFacts, *, force: bool = False) -> Recovered:
        """Recover one run. ``force`` takes a silent run of another host for dead."""
        name = name_of(facts)
        try:
            self._refuse_living(facts, force=force)
            if facts.state == RunState.EMPTY:
                return self._remove_empty(facts.leftover)
            if facts.record is None:
                return Recovered(name, error=facts.error)
            self.places.make()
            lease = Lease(self.places, facts.run_id)
            if not lease.claim():
                return Recovered(name, error="it is alive, or another recovery is at it")
            try:
                return self._recover_claimed(facts, name, lease, force=force)
            finally:
                lease.release()
        except (RecoverError, OSError) as exc:
            return Recovered(name, error=str(exc))

    def _refuse_living(self, facts: RunFacts, *, force: bool) -> None:
        """Raise RefusedError or UnsafeError when a run must not be recovered now."""
        if facts.state in (RunState.ALIVE, RunState.ALONE):
            raise RefusedError("it is alive", todo="end it first, or wait")
        if facts.state != RunState.ELSEWHERE:
            return
        host = facts.record.process.host if facts.record and facts.record.process else "another"
        silent = Lease(self.places, facts.run_id).silence()
        if silent < SILENT:
            raise RefusedError(f"it was alive on the host {host} {silent:.0f} s ago")
        if not force:
            todo = "recover it there, or with --force"
            raise UnsafeError(f"it was started on the host {host}", todo=todo)

    def _recover_claimed(
        self, facts: RunFacts, name: str, lease: Lease, *, force: bool
    ) -> Recovered:
        if facts.record is not None:
            mend_run(self.store, facts.record)
        record = self._record_now(facts)
        if record is None:  # somebody else was faster
            lease.remove()
            return Recovered(name)
        cache = Cache(self._repo)
        if facts.is_rebuilt:
            record = self._take_over(record, cache, force=force)
        evidence = Evidence(
            cache,
            finish=partial(finish_staged, self.places, record, cache),
            salvage=partial(salvage, self.places, record, cache),
        )
        ending = end_run(self.places, record, evidence)
        if not ending.is_safe:
            return Recovered(name, error=ending.why_kept)
        return self._remove(record, ending, lease)

    def _record_now(self, facts: RunFacts) -> RunRecord | None:
        """Return the run's record as it is now that its lease is ours, or None when it has gone."""
        now = look_again(self.places, self.store, facts.run_id)
        if now is None:
            return facts.record if facts.leftover and os.path.isdir(facts.leftover) else None
        if now.state == RunState.FAILED:
            return None
        if now.is_rebuilt and not facts.is_rebuilt:  # refs tell less: not that DVC had finished
            why = now.error or f"the record of {facts.run_id} has gone"
            raise DamagedError(why, todo="repeat: dvc exp recover")
        if now.record is None and not facts.leftover:
            raise DamagedError(now.error)
        return now.record or facts.record

    def _take_over(self, record: RunRecord, cache: Cache, *, force: bool) -> RunRecord:
        """Complete a record that was rebuilt with what its temp dir still has."""
        if record.mode == Mode.WORKSPACE or not _has_repository(record.temp_dir):
            record.save(self.places)
            return record
        infofile = record.infofile or Infos.read(self.places).of(record.temp_dir)
        record = adopt(self.places, record.changed(infofile=infofile), cache)
        live = Refs(self.store).get(LIVE + record.run_id)
        if not record.reproduced and live is None and not force:
            why = "no stage of it had finished, so there is nothing that can be kept"
            Refs(self.store).delete(RUNS + record.run_id)
            record.remove(self.places)
            todo = f"its files stay in {record.temp_dir}; --force removes them"
            raise UnsafeError(why, todo=todo)
        return record

    def _remove(self, record: RunRecord, ending: Ending, lease: Lease) -> Recovered:
        size = disk_usage(tombstone_of(record.temp_dir))
        tell_later(record, ending)
        remove_aside(record.temp_dir, self.places)
        if record.mode == Mode.QUEUE:
            self._close_task(record, failed=not ending.is_success)
        settle(self.places, record, ending, lease)
        return Recovered(ending.name, ending, freed=size)

    def _close_task(self, record: RunRecord, *, failed: bool) -> None:
        try:
            close_task(self._repo, record.stash_rev, failed=failed)
        except Exception as exc:  # noqa: BLE001 - celery's and kombu's many
            failures.note(f"telling the queue that {record.name} has ended", exc)

    def tidy(self) -> None:
        """Remove what is left of runs whose end was killed, of old killed writes, of power cuts."""
        drop_empty_objects(self.store.root)
        try:
            for run_id in self.places.strays():
                self._forget(run_id)
            for path in self.places.remnants():
                if os.path.isdir(path):
                    shutil.rmtree(path)
                else:
                    remove_file(path)
        except (RecoverError, OSError) as exc:
            failures.note("tidying up after runs that have ended", exc)
        self.places.drop_empty()

    def _forget(self, run_id: str) -> None:
        refs = Refs(self.store)
        if refs.get(LIVE + run_id) is None and refs.get(RUNS + run_id) is None:
            lease = Lease(self.places, run_id)
            if lease.claim():
                shutil.rmtree(self.places.staging(run_id), ignore_errors=True)
                remove_file(self.places.receipt(run_id))
                remove_file(self.places.reserve(run_id))
                lease.remove()

    def _remove_empty(self, path: str) -> Recovered:
        size = disk_usage(path)
        temp_dir = path.removesuffix(TOMBSTONE)
        set_aside(temp_dir, self.places)
        remove_aside(temp_dir, self.places)
        return Recovered(os.path.basename(path), freed=size, removed=True)


def _has_repository(temp_dir: str) -> bool:
    paths = (temp_dir, tombstone_of(temp_dir))
    return any(os.path.isdir(os.path.join(path, ".git")) for path in paths)


def name_of(facts: RunFacts) -> str:
    """Return what the user calls a run."""
    return (facts.record.name if facts.record else None) or facts.run_id


def line_of(one: Recovered) -> str:
    """Return the line that tells how a run was recovered."""
    ending = one.ending
    freed = f"{humanize(one.freed)} freed"
    if one.removed:
        return f"Removed {one.name}, which held nothing; {freed}."
    if ending is None:
        return f"'{one.name}' was recovered by another process."
    if ending.ended == Ended.SUCCESS:
        return f"Recovered '{one.name}': it had finished; {freed}."
    if ending.ended == Ended.FAILED:
        return f"Recovered '{one.name}': it had kept nothing ({ending.cause}); {freed}."
    count = ending.checkpoints
    plural = "checkpoint" if count == 1 else "checkpoints"
    taken = f" (the name '{ending.wanted}' was taken)" if ending.wanted else ""
    lost = f" Left out, of the trainer that died: {', '.join(ending.left_out)}."
    told = f"Partial, {count} {plural} ({ending.cause}); {freed}."
    return f"Recovered '{one.name}'{taken}: {told}{lost if ending.left_out else ''}"
