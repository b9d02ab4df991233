"""The one pipeline that every end of a run goes through.

Failure rule: it never raises; whatever fails keeps the temp dir and says why.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Callable

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.durable import remove_file
from dvc_ckpt_recover.durable.reserve import SIZE as RESERVE
from dvc_ckpt_recover.durable.reserve import has_no_inodes, is_full
from dvc_ckpt_recover.dvc_api import executors
from dvc_ckpt_recover.errors import DamagedError, RecoverError
from dvc_ckpt_recover.git import (
    LIVE,
    RUNS,
    Refs,
    Store,
    checkpoints_of,
    closing_of,
    copy_history,
)
from dvc_ckpt_recover.model import Cause, ClosingNote, Salvaged
from dvc_ckpt_recover.recovery.ending import Ending
from dvc_ckpt_recover.recovery.hold import hold
from dvc_ckpt_recover.recovery.mend import drop_empty_objects
from dvc_ckpt_recover.recovery.proof import named_objects, prove
from dvc_ckpt_recover.recovery.publish import publish
from dvc_ckpt_recover.recovery.receipt import read_receipt, write_receipt
from dvc_ckpt_recover.recovery.removal import bring_back, set_aside
from dvc_ckpt_recover.runs import Ended, Mode
from dvc_ckpt_recover.runs.size import disk_usage, humanize

if TYPE_CHECKING:
    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.runs import Lease, Places, RunRecord


@dataclass
class Evidence:
    """What is known of a run's end besides its record.

    Attributes:
        cache: The project's DVC cache.
        proven: DVC objects hashed while they were stored.
        finish: Stores what was copied aside; called once no process of the run is left.
        salvage: Keeps what the stage held that died; called after that.
    """

    cache: Cache
    proven: set[str] = field(default_factory=set)
    finish: Callable[[], object] = lambda: None
    salvage: Callable[[], Salvaged] = Salvaged


def end_run(places: Places, record: RunRecord, evidence: Evidence) -> Ending:
    """Bring what a run finished into the main repository and prove it.

    The temp dir is left under its tombstone name when it may go, else under its own.

    Returns:
        How the run ended; ``is_safe`` says whether the temp dir may go.
    """
    _give_up_reserve(places, record)
    drop_empty_objects(record.main_root)
    proven = read_receipt(places, record)
    if proven is not None:
        return _go_on(places, record, proven)
    try:
        bring_back(record.temp_dir)
        finished = _end_finished(places, record, evidence) if _is_finished(record) else None
        if finished is not None:
            return finished
        hold(record)
        evidence.finish()
        found = Salvaged() if record.unsaved else evidence.salvage()
        ending = _end_failure(places, record, evidence)
        return replace(ending, salvaged=found.sha is not None, left_out=found.left_out)
    except (RecoverError, OSError) as exc:
        return keep(
            record, _needs(places, record, evidence.cache, exc) if is_full(exc) else str(exc)
        )
    except Exception as exc:  # noqa: BLE001
        failures.note(f"ending the run {record.run_id}", exc)
        return keep(record, repr(exc))


def _give_up_reserve(places: Places, record: RunRecord) -> None:
    try:
        remove_file(places.reserve(record.run_id))
    except OSError as exc:
        failures.note("giving up the space that was kept for this", exc)


def _needs(places: Places, record: RunRecord, cache: Cache, error: Exception) -> str:
    """Return what a full disk stopped, and how much room is needed."""
    size = disk_usage(places.staging(record.run_id)) + RESERVE
    todo = f"free about {humanize(size)}"
    for path in (record.main_root, cache.root):
        if has_no_inodes(path):
            todo = f"remove some files below {path}, whose disk has no inodes left,"
    return (
        f"the disk or a quota is full ({error}); nothing was removed; "
        f"{todo} and repeat: dvc exp recover"
    )


def _go_on(places: Places, record: RunRecord, proven: Ending) -> Ending:
    """Take up a run whose end was interrupted after its receipt was written."""
    try:
        _put_aside(places, record)
    except (RecoverError, OSError) as exc:
        return keep(record, str(exc))
    return proven


def keep(record: RunRecord, why: str) -> Ending:
    """Return the ending of a run whose temp dir must stay under its own name."""
    try:
        bring_back(record.temp_dir)
    except OSError as exc:
        why = f"{why}; its dir could not get its name back ({exc})"
    return Ending(
        name=record.name or record.run_id,
        ended=Ended.NOT,
        cause=record.cause,
        kept_dir=record.temp_dir,
        why_kept=why,
        skipped=record.skipped,
    )


def _finished_refs(record: RunRecord) -> dict[str, str]:
    """Return the experiment refs that DVC made in the temp dir: ref -> commit."""
    refs = Refs(Store(record.temp_dir))
    found = refs.list("refs/exps/", strict=True)  # one left out here would be removed with the dir
    return {ref: sha for ref, sha in found.items() if executors.is_experiment_ref(ref)}


def _is_finished(record: RunRecord) -> bool:
    """Return whether DVC made its experiment, even when it was killed before it could say so."""
    if record.reproduced:
        return True
    info = executors.read_info(record.infofile)
    return not record.cause and info is not None and info.has_result


def _end_finished(places: Places, record: RunRecord, evidence: Evidence) -> Ending | None:
    """End a run that DVC went through; None when somebody removed what it had made."""
    if record.mode == Mode.WORKSPACE:  # DVC made its experiment here, nothing is removed
        return Ending(record.name or record.run_id, Ended.SUCCESS, skipped=record.skipped)
    if os.path.isdir(record.temp_dir):
        return _end_success(places, record, evidence)
    return _end_collected(places, record, evidence)


def _end_collected(places: Places, record: RunRecord, evidence: Evidence) -> Ending | None:
    """End a finished run whose temp dir has gone, if DVC had brought its experiment over."""
    info = executors.read_info(record.infofile)
    refs = Refs(Store(record.main_root))
    held = refs.get(info.result_ref) if info and info.result_ref else None
    live = refs.get(LIVE + record.run_id)
    if info is None or info.result_ref is None or held is None or live is None:
        return None
    if not refs.store.is_ancestor(live, held) and not _has_work_of(refs.store, live, held):
        return None  # another experiment has the name
    name = executors.experiment_name(info.result_ref)
    found = Ending(name, Ended.SUCCESS, ref=info.result_ref, sha=held)
    return _prove_and_receipt(places, record, evidence, found)


def _has_work_of(store: Store, live: str, held: str) -> bool:
    return set(named_objects(store, live)) <= set(named_objects(store, held))


def _end_success(places: Places, record: RunRecord, evidence: Evidence) -> Ending:
    source, store = Store(record.temp_dir), Store(record.main_root)
    refs = Refs(store)
    info = executors.read_info(record.infofile)
    made = _finished_refs(record)
    if info and info.result_ref:
        if info.result_ref not in made:
            msg = f"the experiment {info.result_ref} that DVC made is not in {record.temp_dir}"
            raise DamagedError(msg)
        made = {info.result_ref: made[info.result_ref]}
    ending = Ending(record.name or record.run_id, Ended.SUCCESS, skipped=record.skipped)
    for ref, sha in made.items():
        held = refs.get(ref)
        carried = held is None or not store.is_ancestor(sha, held)
        if carried:
            copy_history(source, store, sha, record.parent)
        name = executors.experiment_name(ref)
        ending = replace(ending, name=name, ref=ref, sha=sha, carried=carried)
        if len(made) > 1:
            _prove_and_publish(record, evidence, ending, _put_aside(places, record))
    return _prove_and_receipt(places, record, evidence, ending)


def _end_failure(places: Places, record: RunRecord, evidence: Evidence) -> Ending:
    store = Store(record.main_root)
    refs = Refs(store)
    cause = Cause.parse(record.cause or "dvc was killed")
    if record.unsaved and record.mode != Mode.WORKSPACE:  # there they are the user's to keep
        why = f"the stage {record.unsaved} ended in good order and its outputs could not be saved"
        return keep(record, f"{why} ({cause})")
    tip = refs.get(LIVE + record.run_id)
    if tip is None:
        return _end_empty(places, record, cause)
    sha = _close(store, refs, record, tip, cause)
    note = closing_of(store, sha)
    name = record.name or f"exp-{tip[:5]}"
    wanted = record.branch or executors.experiment_ref(record.baseline, name)
    ending = Ending(
        name=executors.experiment_name(wanted),
        ended=Ended.PARTIAL,
        ref=wanted,
        sha=sha,
        checkpoints=note.checkpoints if note else 0,
        cause=str(cause),
        skipped=record.skipped,
    )
    return _prove_and_receipt(places, record, evidence, ending, "partial")


def _end_empty(places: Places, record: RunRecord, cause: Cause) -> Ending:
    """Note a run that kept nothing, so that its cause can be shown until it is removed."""
    if record.mode == Mode.TEMP:
        record.changed(ended=Ended.FAILED, cause=str(cause)).save(places)
    _put_aside(places, record)
    name = record.name or record.run_id
    return Ending(name, Ended.FAILED, cause=str(cause), skipped=record.skipped)


def _put_aside(places: Places, record: RunRecord) -> str:
    """Set the temp dir aside and return where it is; the user's workspace stays where it is."""
    if record.mode == Mode.WORKSPACE:
        return record.temp_dir
    return set_aside(record.temp_dir, places)


def _close(store: Store, refs: Refs, record: RunRecord, tip: str, cause: Cause) -> str:
    """End the history with a commit that says that it is partial; done before is fine too."""
    if closing_of(store, tip):
        return tip
    count = len(checkpoints_of(store, tip, record.baseline))
    task = record.stash_rev if record.mode == Mode.QUEUE else None
    message = ClosingNote(cause, count, task).message(record.name)
    sha = store.make_commit(store.tree_sha(tip), [tip], message)
    store.sync([sha])
    refs.move(LIVE + record.run_id, sha, tip)
    return sha


def _prove_and_receipt(
    places: Places, record: RunRecord, evidence: Evidence, ending: Ending, suffix: str = ""
) -> Ending:
    aside = _put_aside(places, record)
    count = 0
    if ending.ref is not None:  # a dry or unchanged run has none: DVC made no experiment
        ending, count = _prove_and_publish(record, evidence, ending, aside, suffix)
    write_receipt(places, record, ending, count)
    return ending


def _prove_and_publish(
    record: RunRecord, evidence: Evidence, ending: Ending, aside: str, suffix: str = ""
) -> tuple[Ending, int]:
    """Prove what an experiment names while its temp dir is away, and only then give it its name.

    Returns:
        The ending with the name that it got, and the number of objects proven.
    """
    ref, sha = str(ending.ref), str(ending.sha)
    count = prove(
        record.main_root,
        evidence.cache,
        tip=sha,
        stop=record.parent,
        proven=evidence.proven,
        temp_dir=aside,
    )
    held = publish(Refs(Store(record.main_root)), ref, sha, suffix)
    refs = Refs(Store(record.main_root))
    refs.sync(held)
    found = refs.get(held)
    if found is None or not refs.store.is_ancestor(sha, found):
        msg = f"the ref {held} does not hold {sha[:7]} when it is read again"
        raise RecoverError(msg)
    wanted, name = executors.experiment_name(ref), executors.experiment_name(held)
    return replace(ending, name=name, ref=held, wanted=wanted if wanted != name else None), count


def settle(places: Places, record: RunRecord, ending: Ending, lease: Lease) -> None:
    """Drop what a run needed while it lived, after its temp dir has gone; its lease last.

    Raises:
        UnsafeError: A ref could not be removed; repeating is fine.
    """
    refs = Refs(Store(record.main_root))
    keeps_record = ending.ended == Ended.FAILED and record.mode == Mode.TEMP
    refs.delete(LIVE + record.run_id)
    if not keeps_record:
        refs.delete(RUNS + record.run_id)
        record.remove(places)
    shutil.rmtree(places.staging(record.run_id), ignore_errors=True)
    remove_file(places.receipt(record.run_id))
    lease.remove()
    places.drop_empty()
