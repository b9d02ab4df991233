"""Kernel locks on Windows: a byte range; a child cannot inherit one, so dvc alone holds it."""

from __future__ import annotations

import msvcrt
import os


class KernelLock:
    """A lock on the file ``path``; sharing means a byte of one's own, by process id.

    Args:
        path: The file.
        create: Whether to make it; else a missing one is a FileNotFoundError.
    """

    _SLOTS = 1 << 20

    def __init__(self, path: str, *, create: bool = True) -> None:
        self.path = path
        self._flags = os.O_RDWR | (os.O_CREAT if create else 0)
        self._fd: int | None = None

    def _acquire(self, start: int, length: int) -> bool:
        fd = os.open(self.path, self._flags, 0o600)
        os.lseek(fd, start, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, length)  # type: ignore[attr-defined]
        except OSError:
            os.close(fd)
            return False
        self.release()
        self._fd = fd
        return True

    def share(self) -> bool:
        """Hold the lock together with others; False when somebody has it alone."""
        return self._acquire(os.getpid() % self._SLOTS, 1)

    def take(self) -> bool:
        """Hold the lock alone; False when anybody else holds it."""
        return self._acquire(0, self._SLOTS)

    def wait(self) -> None:
        """Hold the lock alone, waiting for it."""
        import time

        while not self.take():
            time.sleep(0.05)

    def release(self) -> None:
        """Let go; without effect when it is not held."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def inheritable(self) -> int | None:
        """Return None: there is nothing to inherit."""
        return None
