"""Make sure that no process of a run still works in its temp dir before the dir goes.

dvc killed alone leaves its trainer running. It gets what Ctrl-C sends and a set time to end by
itself, so that it can save what it has, then it is killed.

Failure rule: a process that does not end is an UnsafeError, so the temp dir stays.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from dvc_ckpt_recover import settings
from dvc_ckpt_recover.errors import UnsafeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dvc_ckpt_recover.runs import RunRecord

_KILL_TIMEOUT = 5.0


def hold(record: RunRecord) -> bool:
    """End what is left of a run whose dvc is gone.

    Returns:
        Whether anything was left.

    Raises:
        UnsafeError: A process goes on even after it was killed (it hangs in the kernel).
    """
    end = time.monotonic() + settings.grace()
    found = _processes_of(record)
    _each(found, _interrupt)
    psutil.wait_procs(found, timeout=max(0.0, end - time.monotonic()))
    left = _processes_of(record)  # with those that were started meanwhile
    _each(left, psutil.Process.kill)
    psutil.wait_procs(left, timeout=_KILL_TIMEOUT)
    stubborn = _processes_of(record)
    if stubborn:
        pids = ", ".join(str(process.pid) for process in stubborn)
        msg = f"the run's processes still work in its temp dir (pid {pids})"
        raise UnsafeError(msg)
    return bool(found)


def _processes_of(record: RunRecord) -> list[psutil.Process]:
    """Return the processes that were started by a stage of the run, this one's own line aside."""
    own = {os.getpid()}
    with suppress(psutil.Error):
        own |= {parent.pid for parent in psutil.Process().parents()}
    return [
        process
        for process in psutil.process_iter()
        if process.pid not in own and _is_of(process, record)
    ]


def _is_of(process: psutil.Process, record: RunRecord) -> bool:
    try:
        if process.create_time() < record.started - 1 or process.status() == psutil.STATUS_ZOMBIE:
            return False
        return bool(process.environ().get(settings.ENV_RUN) == record.run_id)
    except (psutil.Error, OSError):  # gone, or another user's
        return False


def _interrupt(process: psutil.Process) -> None:
    if sys.platform == "win32":  # pragma: no cover
        process.terminate()
    else:
        process.send_signal(signal.SIGINT)


def _each(processes: Iterable[psutil.Process], action: object) -> None:
    for process in processes:
        with suppress(psutil.Error):
            action(process)  # type: ignore[operator]
