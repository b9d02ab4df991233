"""Handlers for the end: the clean-up of a temp dir, and the end of a dvc command."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.activation import signals
from dvc_ckpt_recover.activation.telling import tell
from dvc_ckpt_recover.checkpointing import finish_staged, salvage
from dvc_ckpt_recover.checkpointing.session import open_session
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.dvc_api.executors import clean_up_but_keep
from dvc_ckpt_recover.dvc_api.project import open_project
from dvc_ckpt_recover.errors import RecoverError
from dvc_ckpt_recover.recovery import Evidence, end_run, keep, settle
from dvc_ckpt_recover.recovery.removal import tombstone_of
from dvc_ckpt_recover.reporting import messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.checkpointing import RunSession
    from dvc_ckpt_recover.patching import Call, Steps
    from dvc_ckpt_recover.recovery import Ending


def clean_up(call: Call) -> Steps:
    """Around ``TempDirExecutor.cleanup``: nothing is removed before it is proven."""
    executor = call["self"]
    session = _session_of(executor)
    if isinstance(session, str):
        messages.say(messages.kept_dir(executor.root_dir, session))
        yield clean_up_but_keep(executor)
        return
    if session is None:
        yield
        return
    with signals_wait():
        ending = end(session, call["infofile"])
        tell(session.record, ending)
        if ending.is_safe:
            executor.root_dir = tombstone_of(session.record.temp_dir)
            yield
        else:
            yield clean_up_but_keep(executor)
        after(session, ending)
    signals.disarm()


def _session_of(executor: Any) -> RunSession | str | None:  # noqa: ANN401
    """Return the run's session, None for a run that is not ours, or why it cannot be known."""
    try:
        return open_session(executor.root_dir)
    except Exception as exc:  # noqa: BLE001 - whatever it is, nothing may be removed then
        return str(exc) or repr(exc)


def end(session: RunSession, infofile: str | None) -> Ending:
    """Go through the pipeline; an error in any part of it means that the dir stays."""
    try:
        session.finish()
        session.read_again()
        record = session.record.changed(infofile=infofile or session.record.infofile)
        session.record = record
        with open_project(record) as repo:
            cache = Cache(repo)
            evidence = Evidence(
                cache,
                session.proven,
                lambda: finish_staged(session.places, record, cache),
                lambda: salvage(session.places, record, cache),
            )
            return end_run(session.places, record, evidence)
    except (RecoverError, OSError) as exc:
        return keep(session.record, str(exc))
    except Exception as exc:  # noqa: BLE001
        failures.note(f"ending the run {session.record.run_id}", exc)
        return keep(session.record, repr(exc))


def after(session: RunSession, ending: Ending) -> None:
    """Drop what the run needed while it lived, if it is safe, and let go of it."""
    try:
        if ending.is_safe:
            settle(session.places, session.record, ending, session.lease)
    except (RecoverError, OSError) as exc:
        failures.note(f"tidying up after {ending.name}", exc)
    finally:
        session.lease.release()
        session.close()


@contextmanager
def signals_wait() -> Iterator[None]:
    """Let Ctrl-C wait until the pipeline is through: it must not end half-way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    pressed = []
    signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        messages.say(["Ctrl-C waited until the checkpoints were safe."])
