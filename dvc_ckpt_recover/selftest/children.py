"""Children that act on a scene, forked so that nothing has to be imported again, and hit.

``strace`` counts a call per process, from the moment it attached: no call of Python's own start
is in the way, and a point costs milliseconds.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.selftest.actions import ACTIONS
from dvc_ckpt_recover.selftest.guards import without

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dvc_ckpt_recover.selftest.scene import Scene

_TIMEOUT = 60.0
_TRIES = 3


class AttachError(RuntimeError):
    """strace did not get hold of a child."""


class TraceError(RuntimeError):
    """strace lost count of a child's calls: the point must be tried again from the start."""


@dataclass
class Outcome:
    """What became of a child.

    Attributes:
        said: What it said, line by line.
        status: Its wait status.
        calls: The lines of the calls that strace saw.
    """

    said: list[dict[str, Any]] = field(default_factory=list)
    status: int = 0
    calls: list[str] = field(default_factory=list)

    @property
    def was_killed(self) -> bool:
        """Return whether the kill hit it."""
        return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL

    @property
    def was_hit(self) -> bool:
        """Return whether strace hit it, by a kill or an error."""
        return self.was_killed or any("(INJECTED)" in line for line in self.calls)

    @property
    def errors(self) -> list[str]:
        """Return the errors that it told, one line each."""
        return [line["error"] for line in self.said if line.get("error")]

    @property
    def crash(self) -> str:
        """Return the traceback of an error that nobody caught, or nothing."""
        return "".join(line["crash"] for line in self.said if "crash" in line)

    def steps(self, *kinds: str) -> set[int]:
        """Return the steps that were ``staged`` or ``ready``."""
        return {line[kind] for line in self.said for kind in kinds if kind in line}


class Child:
    """A forked child that does one action; it waits for ``go`` first.

    Args:
        scene: What it acts on.
        action: A key of ``ACTIONS``.
        guards: Guards that it goes without, see ``guards``.
        options: Given to the action.
    """

    def __init__(
        self,
        scene: Scene,
        action: str,
        guards: Iterable[str] = (),
        **options: Any,  # noqa: ANN401
    ) -> None:
        wait, self._go = os.pipe()
        self._out, out = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            os.close(self._out)
            _act(wait, out, lambda say: ACTIONS[action](scene, say, **options), guards)
        os.close(wait)
        os.close(out)

    def go(self) -> None:
        """Let it start."""
        with suppress(BrokenPipeError):
            os.write(self._go, b"x")
        os.close(self._go)

    def kill(self) -> None:
        """Kill it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def readline(self) -> dict[str, Any] | None:
        """Return the next thing it says, None when it is through."""
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self._out, 1)
            if not byte:
                return None
            line += byte
        said: dict[str, Any] = json.loads(line)
        return said

    def end(self, tracer: subprocess.Popen[bytes] | None = None) -> Outcome:
        """Wait until it is through and return what became of it; one that hangs is a crash."""
        outcome = Outcome()
        data = b""
        until = time.monotonic() + _TIMEOUT
        while select.select([self._out], [], [], max(0.0, until - time.monotonic()))[0]:
            piece = os.read(self._out, 65536)
            if not piece:
                break
            data += piece
        else:
            if tracer is not None:
                tracer.kill()
            self.kill()
            outcome.said.append({"crash": f"it did not end within {_TIMEOUT:.0f} s"})
        os.close(self._out)
        for line in data.splitlines():
            with suppress(ValueError):  # the kill came within a line
                outcome.said.append(json.loads(line))
        outcome.status = os.waitpid(self.pid, 0)[1]
        return outcome


def _act(wait: int, out: int, action: Any, guards: Iterable[str]) -> None:  # noqa: ANN401
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # the table stands alone
        without(guards)

        def say(**fields: Any) -> None:  # noqa: ANN401
            # not write(2), which is what is made to fail
            os.writev(out, [json.dumps(fields).encode() + b"\n"])

        os.read(wait, 1)
        try:
            action(say)
            code = 0
        except BaseException:  # noqa: BLE001
            say(crash=traceback.format_exc())
    finally:
        os._exit(code)


def run(scene: Scene, action: str, guards: Iterable[str] = (), **options: Any) -> Outcome:  # noqa: ANN401
    """Do an action on a scene in a child and return what became of it."""
    child = Child(scene, action, guards, **options)
    child.go()
    return child.end()


def run_hit(  # noqa: PLR0913, PLR0917 - each is one trait of the hit
    scene: Scene,
    action: str,
    log: str,
    calls: str,
    hit: str = "",
    guards: Iterable[str] = (),
    **options: Any,  # noqa: ANN401
) -> Outcome:
    """Do an action under strace.

    Args:
        scene: What it acts on.
        action: A key of ``ACTIONS``.
        log: File for strace's lines.
        calls: The calls to trace.
        hit: What to do to one of them, such as ``signal=SIGKILL:when=3``, or nothing.
        guards: Guards to go without.
        options: Given to the action.
    """
    words = ["strace", "-f", "-qq", "-y", "-o", log, "-e", "signal=none", "-e", f"trace={calls}"]
    if hit:
        words += ["-e", f"inject={calls}:{hit}"]
    for _ in range(_TRIES - 1):
        try:
            return _traced(words, Child(scene, action, guards, **options), log)
        except AttachError:  # a busy machine; the child has done nothing yet
            continue
    return _traced(words, Child(scene, action, guards, **options), log)


def _traced(words: list[str], child: Child, log: str) -> Outcome:
    said = f"{log}.said"  # a file, since strace stands still before a pipe that nobody reads
    command = [*words, "-p", str(child.pid)]
    with open(said, "wb") as file, subprocess.Popen(command, stderr=file) as tracer:
        try:
            _wait_for_tracer(child.pid, tracer, said)
        except BaseException:
            child.kill()
            tracer.kill()
            child.end()
            raise
        child.go()
        outcome = child.end(tracer)
        tracer.wait(timeout=_TIMEOUT)
    with open(log, encoding="utf-8", errors="replace") as lines:
        outcome.calls = lines.read().splitlines()
    if any("syscall_0x" in line for line in outcome.calls):
        msg = f"strace took a return for a call: {outcome.calls[-1]}"
        raise TraceError(msg)
    return outcome


def _wait_for_tracer(pid: int, tracer: subprocess.Popen[bytes], said: str) -> None:
    end = time.monotonic() + _TIMEOUT
    while True:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            traced = next((line.split()[1] for line in file if line.startswith("TracerPid")), "0")
        if traced == str(tracer.pid):
            return
        if tracer.poll() is not None or time.monotonic() > end:
            with open(said, encoding="utf-8", errors="replace") as file:
                why = file.read().strip()
            msg = f"strace could not attach (exit {tracer.poll()}): {why}"
            raise AttachError(msg)
        time.sleep(0.001)
