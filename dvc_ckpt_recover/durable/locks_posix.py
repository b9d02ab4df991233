"""Kernel locks with ``flock``: shared by holders, inherited by children, freed at their end."""

from __future__ import annotations

import fcntl
import os


class KernelLock:
    """A lock on the file ``path``; the file itself is never removed by this class.

    ``flock`` belongs to the open file, so a child that inherits the descriptor holds the lock
    on after its parent was killed (flock(2)).

    Args:
        path: The file.
        create: Whether to make it; else a missing one is a FileNotFoundError.
    """

    def __init__(self, path: str, *, create: bool = True) -> None:
        self.path = path
        self._flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self._fd: int | None = None

    def _acquire(self, operation: int) -> bool:
        fd = os.open(self.path, self._flags, 0o600)
        try:
            fcntl.flock(fd, operation)
        except BlockingIOError:
            os.close(fd)
            return False
        except BaseException:
            os.close(fd)
            raise
        self.release()
        self._fd = fd
        return True

    def share(self) -> bool:
        """Hold the lock together with others; False when somebody has it alone."""
        return self._acquire(fcntl.LOCK_SH | fcntl.LOCK_NB)

    def take(self) -> bool:
        """Hold the lock alone; False when anybody else holds it."""
        return self._acquire(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def wait(self) -> None:
        """Hold the lock alone, waiting for it."""
        self._acquire(fcntl.LOCK_EX)

    def release(self) -> None:
        """Let go; without effect when it is not held."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def inheritable(self) -> int | None:
        """Return the descriptor that a child must inherit to hold the lock too."""
        return self._fd
