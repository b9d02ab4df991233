"""Handlers for a run that lives: set-up, reproduction, stages, DVC 2's own checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.activation import signals
from dvc_ckpt_recover.checkpointing.session import open_session, session_for, start_session
from dvc_ckpt_recover.durable.reserve import keep_reserve
from dvc_ckpt_recover.dvc_api import executors, outputs
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.dvc_api.stages import root_of
from dvc_ckpt_recover.dvc_api.version import has_native_checkpoints
from dvc_ckpt_recover.errors import RecoverError
from dvc_ckpt_recover.git import LIVE, RUNS, Refs, Store, copy_history
from dvc_ckpt_recover.resuming import go_on
from dvc_ckpt_recover.runs import Mode, Places, ProcessId, RunRecord, run_id_of

if TYPE_CHECKING:
    from dvc_ckpt_recover.checkpointing import RunSession
    from dvc_ckpt_recover.patching import Call, Steps


def set_up(call: Call) -> Steps:
    """Around ``TempDirExecutor.init_git``: take the lease and write the record."""
    setup = executors.setup_of(call)
    places = Places.of_temp_dir(setup.root_dir)
    if places is None:
        yield
        return
    signals.arm()
    mode = Mode.QUEUE if setup.in_queue else Mode.TEMP
    session = begin(places, setup, run_id_of(setup.root_dir, setup.stash_rev), mode)
    outcome = yield
    if outcome.error is not None:
        signals.disarm()
        session.abandon()


def begin(places: Places, setup: executors.Setup, run_id: str, mode: str) -> RunSession:
    """Write the record of a run and take its lease.

    Args:
        places: Where its files will lie.
        setup: What DVC is about to set up.
        run_id: Its id.
        mode: See ``Mode``.
    """
    refs = Refs(Store(setup.main_root))
    record = RunRecord(
        run_id=run_id,
        name=setup.name,
        baseline=setup.baseline,
        parent=(refs.get(setup.branch) if setup.branch else None) or setup.head,
        branch=setup.branch,
        stash_rev=setup.stash_rev,
        main_root=setup.main_root,
        temp_dir=setup.root_dir,
        dvc_dir=setup.dvc_dir,
        mode=mode,
        process=ProcessId.own(),
    )
    places.make()
    session = start_session(places, record)  # the lease first: a record without one is an orphan
    record.save(places)
    keep_reserve(places.reserve(record.run_id))
    if refs.get(RUNS + record.run_id) is None:
        refs.move(RUNS + record.run_id, setup.stash_rev, None)
    return session


def reproduce(call: Call) -> Steps:
    """Around ``BaseExecutor.reproduce``: the time in which stages run."""
    session = open_session(call["info"].root_dir)
    if session is None:
        yield
        return
    record = session.record.changed(process=ProcessId.own(), infofile=call["infofile"])
    session.record = record
    record.save(session.places)
    signals.arm()
    outcome = yield
    if session.stage_error is not None and outcome.error is None and has_native_checkpoints():
        # 2.58 takes a killed trainer for a finished run and commits its torn state
        executors.mark_failed(call["info"], call["infofile"])
        outcome.error = executors.stage_failed(session.stage_error, str(session.stage))
    session.end(outcome.error)


def load_outputs(call: Call) -> Steps:
    """Around ``load_from_pipeline``: ``checkpoint: true`` means again what it meant in DVC 2."""
    outcome = yield
    if outcome.error is None:
        outcome.value = outputs.mark_checkpoints(outcome.value, call["data"])


def output_flags(call: Call) -> Steps:
    """Around ``_get_flags``: write such an output as it was read."""
    outcome = yield
    if outcome.error is None:
        outcome.value = outputs.flags_as_read(call["out"], outcome.value)


def stage_command(call: Call) -> Steps:
    """Around ``cmd_run``: the command of one stage."""
    stage = call["stage"]
    session = None if call["dry"] else session_for(root_of(stage))
    if session is None:
        yield
        return
    if signals.came():
        outcome = yield _refuse(stage)
        session.stage_command_ended(stage, outcome.error)
        return
    session.stage_starts(stage)
    _bring_back(session, stage)
    outcome = yield
    number = signals.came()
    if number is None:
        session.stage_command_ended(stage, outcome.error)
        return
    whole = outcome.error is None
    outcome.error = outcome.error or executors.stage_interrupted(stage, number)
    session.stage_interrupted(stage, outcome.error, number, whole=whole)


def _refuse(stage: Any) -> Callable[..., None]:  # noqa: ANN401
    """Return what runs instead of a command that would start after dvc was told to end."""

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise executors.stage_interrupted(stage, signals.came() or 0)

    return refuse


def _resumed_number(session: RunSession) -> int | None:
    return go_on.number_for(session.record, session.view.stage) if session.view else None


def _bring_back(session: RunSession, stage: Any) -> None:  # noqa: ANN401
    """Give a stage that goes on its metrics back; without them it still goes on."""
    try:
        if session.view and _resumed_number(session) is not None:
            go_on.bring_back(session.record, session.view.stage, Cache(stage.repo))
    except (RecoverError, OSError) as exc:
        failures.note(f"the metrics of stage {stage.addressing} could not be brought back", exc)


def stage_environment(call: Call) -> Steps:
    """Around ``prepare_kwargs``: give the command the address and the lease."""
    outcome = yield
    session = session_for(root_of(call["stage"]))
    if session is None or outcome.error is not None:
        return
    outcome.value["env"].update(session.environment())
    number = _resumed_number(session)
    if number is not None:
        outcome.value["env"].update(go_on.environment(number))
    lease = session.lease.inheritable()
    if lease is not None:
        outcome.value["pass_fds"] = (*outcome.value.get("pass_fds", ()), lease)


def stage_reproduced(call: Call) -> Steps:
    """Around ``_reproduce_stage``: DVC has saved the stage, or found it unchanged."""
    outcome = yield
    stage = call["stage"]
    session = session_for(root_of(stage))
    if session is not None and outcome.error is None and not call["kwargs"].get("dry"):
        session.stage_is_done(stage, changed=bool(outcome.value))


def native_checkpoint(call: Call) -> Steps:
    """Around DVC 2's ``checkpoint_callback``: bring its commit to the main repository at once."""
    outcome = yield
    session = session_for(str(call["scm"].root_dir))
    if session is not None and outcome.error is None:
        _follow_native(session)


def _follow_native(session: RunSession) -> None:
    record = session.record
    source, target = Store(record.temp_dir), Store(record.main_root)
    sha = Refs(source).get(executors.EXEC_BRANCH)
    if sha is None:
        return
    target.sync(copy_history(source, target, sha, record.parent))
    refs, live = Refs(target), LIVE + record.run_id
    old = refs.get(live)
    if old != sha:
        refs.move(live, sha, old)
    refs.sync(live)
