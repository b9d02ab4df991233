"""Name a process so that a reused pid, a zombie or another host's pid is not taken for it."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from typing import Any

import psutil


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return str(int(psutil.boot_time()))


@dataclass(frozen=True)
class ProcessId:
    """One process of one boot of one host.

    Attributes:
        pid: Its number.
        started: When it started, seconds since 1970 as the system counts them.
        host: The host's name.
        boot: The id of the host's boot.
    """

    pid: int
    started: float
    host: str
    boot: str

    @classmethod
    def own(cls) -> ProcessId:
        """Return this process."""
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """Return the process that has ``pid`` now. Raises ``psutil.NoSuchProcess``."""
        started = psutil.Process(pid).create_time()
        return cls(pid, started, socket.gethostname(), _boot_id())

    @classmethod
    def parse(cls, value: Any) -> ProcessId | None:  # noqa: ANN401
        """Return the process in a record's JSON, or None when there is none."""
        try:
            pid, started = int(value["pid"]), float(value["started"])
            return cls(pid, started, str(value["host"]), str(value["boot"]))
        except (KeyError, TypeError, ValueError):
            return None

    def is_here(self) -> bool:
        """Return whether it ran on this host, in whatever boot."""
        return self.host == socket.gethostname()

    def is_alive(self) -> bool:
        """Return whether this very process runs on this host now; a zombie does not."""
        if not self.is_here() or self.boot != _boot_id():
            return False
        try:
            found = psutil.Process(self.pid)
            same = abs(found.create_time() - self.started) < 1.0
            return bool(same and found.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False


def holds_open(name: str) -> bool:
    """Return whether a process of this host has a file called ``name`` open, removed or not.

    For a lease whose folder somebody deleted: it is held on, but nobody can try its lock. Looks
    into ``/proc``, at the processes of this user; elsewhere it finds nothing.
    """
    ends = (f"/{name}", f"/{name} (deleted)")
    for pid in psutil.pids():
        folder = f"/proc/{pid}/fd"
        try:
            for fd in os.listdir(folder):
                with contextlib.suppress(OSError):
                    if os.readlink(os.path.join(folder, fd)).endswith(ends):
                        return True
        except OSError:  # it has gone, or is another user's
            continue
    return False


def user_of(folder: str) -> int | None:
    """Return the pid of a process of this host that works in ``folder``, or None.

    It has the folder, or one below it, as its working directory, or a file in it open.
    """
    top = os.path.realpath(folder)
    for process in psutil.process_iter():
        links = [f"/proc/{process.pid}/cwd"]
        with contextlib.suppress(OSError):
            fds = f"/proc/{process.pid}/fd"
            links += [os.path.join(fds, fd) for fd in os.listdir(fds)]
        for link in links:
            with contextlib.suppress(OSError):
                path = os.readlink(link)
                if path == top or path.startswith(top + os.sep):
                    return int(process.pid)
    return None


def started_before(pid: int, moment: float) -> bool:
    """Return whether ``pid`` lives and has lived at ``moment`` (seconds since 1970)."""
    try:
        process = psutil.Process(pid)
        dead = process.status() == psutil.STATUS_ZOMBIE
        return not dead and bool(process.create_time() <= moment)
    except psutil.Error:
        return False


def runner_in(root: str, moment: float) -> int | None:
    """Return the pid of a dvc that runs experiments in ``root`` since before ``moment``, or None.

    For temp dirs without a lease, which plain DVC made: it works outside of them while it sets
    them up and while it collects them. This process and those that wait for it do not count.
    """
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    top = os.path.realpath(root)
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if process.pid in own or not _runs_experiments(words):
                continue
            where = os.path.realpath(process.cwd())
            inside = where == top or where.startswith(top + os.sep)
            if inside and started_before(process.pid, moment):
                return int(process.pid)
        except psutil.Error:
            continue
    return None


def _runs_experiments(words: list[str]) -> bool:
    if not any(os.path.basename(word) in ("dvc", "dvc.exe") for word in words[:4]):
        return False
    return not {"run", "exec-run", "queue-worker", "repro", "start"}.isdisjoint(words)
