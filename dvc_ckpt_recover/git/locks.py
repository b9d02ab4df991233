"""Git's lock files: taken as Git takes them, waited for, and removed only when nobody has them.

A process killed within ``git fetch`` leaves ``refs/.../name.lock``, which blocks that ref for ever.

Failure rule: a lock that might belong to somebody stays; the error says which file it is.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Callable, TypeVar

import psutil
from shortuuid import uuid

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.errors import UnsafeError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

T = TypeVar("T")

WAIT = 10.0
"""Seconds that a lock is waited for."""
MIN_AGE = 3.0
"""Seconds; Git holds a ref's lock for milliseconds."""
_PAUSE = 0.02
_LOOK_EVERY = 1.0
_SLACK = 2.0
"""Seconds by which start times and file times may differ."""
_SHELLS = {"sh", "bash", "dash", "zsh", "fish", "ksh", "tcsh", "csh", "tmux", "screen", "login"}
"""They have the repository as their folder all day and never take a lock themselves."""
_SHARED = (
    "nfs",
    "cifs",
    "smb",
    "sshfs",
    "lustre",
    "ceph",
    "gluster",
    "afs",
    "9p",
    "gpfs",
    "beegfs",
)
"""File systems on which another host may own the lock, by a part of their names."""


class HeldError(OSError):
    """Somebody, or somebody's remains, has the lock file ``path``."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is there")
        self.path = path


class LockFile:
    """Git's lock on ``path``, as a context: the file ``path.lock``, which nobody else can make.

    Raises:
        HeldError: It is there already.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = f"{path}.lock"
        self._fd: int | None = None

    def __enter__(self) -> Self:
        """Take it."""
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
        try:
            self._fd = os.open(self.lock, flags, 0o666)
        except FileExistsError as exc:
            raise HeldError(self.lock) from exc
        return self

    def commit(self, data: bytes) -> None:
        """Put ``data`` under ``path``, on the disk before it gets the name, and let go."""
        assert self._fd is not None  # noqa: S101 - within the context only
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        os.fsync(self._fd)
        self._close()
        os.replace(self.lock, self.path)
        self.lock = ""

    def _close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Let go."""
        with suppress(OSError):
            self._close()
        if self.lock:
            with suppress(OSError):
                os.unlink(self.lock)


def patiently(action: Callable[[], T], top: str) -> T:
    """Do ``action`` again while a lock is in its way, for at most ``WAIT`` seconds.

    Args:
        action: What may raise ``HeldError``.
        top: The Git folder, where a lock that is provably nobody's is removed.

    Raises:
        UnsafeError: The lock stayed.
    """
    end = time.monotonic() + WAIT
    look = 0.0
    while True:
        try:
            return action()
        except HeldError as exc:
            if time.monotonic() >= look:
                look = time.monotonic() + _LOOK_EVERY
                if remove_if_stale(exc.path, top):
                    continue
            if time.monotonic() > end:
                todo = f"if no git or dvc works in this repository, remove {exc.path} and repeat"
                raise UnsafeError(f"Git's lock {exc.path} stays held", todo=todo) from exc
        time.sleep(_PAUSE)


def remove_if_stale(lock: str, top: str) -> bool:
    """Remove the lock file ``lock`` of the Git folder ``top`` if it is provably nobody's.

    Returns:
        Whether it is gone.
    """
    try:
        before = os.lstat(lock)
        if why_not_stale(lock, top):
            return False
        aside = f"{lock}.{uuid()}"
        os.rename(lock, aside)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    now = os.lstat(aside)
    if (now.st_ino, now.st_mtime_ns) != (before.st_ino, before.st_mtime_ns):
        with suppress(FileExistsError):  # somebody was faster and took it anew
            os.link(aside, lock)
        os.unlink(aside)
        return False
    os.unlink(aside)
    age = time.time() - before.st_mtime
    error = UnsafeError(f"{lock}, {age:.0f} s old, belongs to no process; it was removed")
    failures.note("a lock of Git's was left behind", error)
    return True


def why_not_stale(lock: str, top: str) -> str:
    """Return why a lock may belong to somebody, or nothing when it is provably nobody's.

    Raises:
        OSError: It cannot be looked at.
    """
    status = os.lstat(lock)
    if time.time() - status.st_mtime < MIN_AGE:
        return "it is only a moment old"
    if _is_shared(lock):
        return "its file system may be shared with other hosts"
    if status.st_mtime < psutil.boot_time() - _SLACK:
        return ""
    places = {os.path.realpath(path) for path in (top, _work_tree(top))}
    for process in psutil.process_iter():
        if process.pid != os.getpid():
            why = _why_owner(process, status, places)
            if why:
                return why
    return ""


def _work_tree(top: str) -> str:
    return os.path.dirname(top) if os.path.basename(top) == ".git" else top


def _is_shared(path: str) -> bool:
    real = os.path.realpath(path)
    mounts = [
        part
        for part in psutil.disk_partitions(all=True)
        if real.startswith(os.path.join(part.mountpoint, ""))
    ]
    kind = max(mounts, key=lambda part: len(part.mountpoint)).fstype.lower() if mounts else ""
    return any(name in kind for name in _SHARED)


def _why_owner(  # noqa: PLR0911 - one return for each reason
    process: psutil.Process, lock: os.stat_result, places: set[str]
) -> str:
    """Return why ``process`` may own the lock; only its user's can, as its file is that user's."""
    try:
        if process.create_time() > lock.st_mtime + _SLACK:
            return ""
        if process.status() == psutil.STATUS_ZOMBIE or lock.st_uid not in process.uids():
            return ""
        if process.name() in _SHELLS:
            return ""
        used = [process.cwd(), *_opened(process.pid)]
    except psutil.NoSuchProcess:
        return ""
    except (psutil.Error, OSError) as exc:
        if process.pid == 1:  # what starts and keeps the system or the container
            return ""
        return f"the process {process.pid} cannot be looked into ({exc})"
    for path in used:
        real = os.path.realpath(path)
        if any(real == place or real.startswith(place + os.sep) for place in places):
            return f"the process {process.pid} ({process.name()}) works in the repository"
    return ""


def _opened(pid: int) -> list[str]:
    """Return the files that a process has open or mapped.

    Raises:
        OSError: They cannot be known.
    """
    folder = f"/proc/{pid}"
    found = []
    try:
        for fd in os.listdir(f"{folder}/fd"):
            with suppress(FileNotFoundError):
                found.append(os.readlink(f"{folder}/fd/{fd}").removesuffix(" (deleted)"))
        with open(f"{folder}/maps", encoding="utf-8", errors="replace") as file:
            found += [line.split(None, 5)[5].strip() for line in file if line.count("/")]
    except (FileNotFoundError, ProcessLookupError):
        if os.path.exists("/proc/self/fd"):
            return found  # it ended meanwhile
        raise
    return [path for path in found if path.startswith("/")]
