"""SIGTERM and SIGHUP to a dvc that runs an experiment: the trainer first, then the pipeline.

The signal handler only notes the signal; dvc goes on waiting for its stage. A thread passes the
signal on to the stage's processes and, after the grace time or at a second signal, kills them. Then
dvc's own clean-up runs as after any failed stage, and it exits with 128 plus the signal.

Failure rule: where handlers cannot be set (not the main thread, ignored by ``nohup``) the signal
does what it did before; the run is then an orphan that a recovery finds.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil

from dvc_ckpt_recover import settings
from dvc_ckpt_recover.reporting import messages

if TYPE_CHECKING:
    from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")
_LOOK = 0.1
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "fish", "ksh"))
_STOP = b"\0"


class Watch:
    """Takes the signals of this process from the set-up of a run to its clean-up.

    Attributes:
        came: The first signal that came, or None.
    """

    def __init__(self) -> None:
        self.came: int | None = None
        self._before: dict[int, Any] = {}
        self._ends: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None

    def arm(self) -> None:
        """Take the signals from now on; without effect where that cannot be, or is so already."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
        wanted = [number for number in numbers if _is_free(number)]
        if not wanted:
            return
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        self._ends = (reading, writing)
        self._thread = threading.Thread(target=self._serve, name="ckpt-signals", daemon=True)
        self._thread.start()
        self._before = {number: signal.signal(number, self._note) for number in wanted}

    def disarm(self) -> None:
        """Give the signals back; one that came stays noted in ``came``."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
        if self._ends is not None and self._thread is not None:
            os.write(self._ends[1], _STOP)
            self._thread.join()
            for end in self._ends:
                os.close(end)
        self._ends = self._thread = None

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.came is None:
            self.came = number
        if self._ends is not None:
            with contextlib.suppress(OSError):
                os.write(self._ends[1], bytes([number]))

    def _serve(self) -> None:
        """Wait for signals, then end the stage's processes until nobody needs this any more."""
        assert self._ends is not None  # noqa: S101
        reading = self._ends[0]
        told: dict[psutil.Process, float] = {}
        number, hurry = 0, False
        while True:
            ready = select.select([reading], [], [], _LOOK if number else None)[0]
            for byte in os.read(reading, 64) if ready else b"":
                if byte == _STOP[0]:
                    return
                if number:
                    hurry = True
                else:
                    number = byte
                    _say(f"{signal.Signals(number).name}: the stage gets {settings.grace():g} s")
            if number:
                _end_stage(number, told, 0.0 if hurry else settings.grace())


def _is_free(number: int) -> bool:
    """Return whether we may take a signal: ``nohup`` ignores SIGHUP, and it must stay so."""
    return signal.getsignal(number) not in (signal.SIG_IGN, None)


def _end_stage(number: int, told: dict[psutil.Process, float], grace: float) -> None:
    """Pass a signal on to each process of the stage, once; kill those whose time is over."""
    now = time.monotonic()
    for process in _stage_processes():
        with contextlib.suppress(psutil.Error):
            if process not in told:
                told[process] = now
                if not _is_waiting_shell(process):
                    process.send_signal(number)
            if now - told[process] >= grace:
                process.kill()


def _stage_processes() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and settings.ENV_RUN in process.environ():
                found.append(process)
    return found


def _is_waiting_shell(process: psutil.Process) -> bool:
    """Return whether it only waits for what it started: it must report that, not die before."""
    return process.name().lstrip("-") in _SHELLS and bool(process.children())


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"dvc_ckpt_recover: {text}\n")
        sys.stderr.flush()


_watch = Watch()


def arm() -> None:
    """Take SIGTERM and SIGHUP: a run begins."""
    _watch.arm()


def came() -> int | None:
    """Return the signal that ended the run, or None."""
    return _watch.came


def disarm() -> None:
    """Give SIGTERM and SIGHUP back: a run is over.

    Outside of a dvc command, a signal that came does now what it would have done at once.
    """
    _watch.disarm()
    number = _watch.came
    if number is not None and not messages.are_held():
        _watch.came = None
        os.kill(os.getpid(), number)


def exit_code() -> int | None:
    """Return the conventional exit code of a dvc command that a signal ended, or None."""
    _watch.disarm()
    if _watch.came is None:
        return None
    _let_go_of_terminal()
    return 128 + _watch.came


def _let_go_of_terminal() -> None:
    """Keep Python from ending with code 120 because the closed terminal takes no last words."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except (OSError, ValueError):
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
