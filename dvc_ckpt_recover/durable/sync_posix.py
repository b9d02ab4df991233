"""Syncing on Linux and macOS."""

from __future__ import annotations

import ctypes
import fcntl
import os

_FULLFSYNC = getattr(fcntl, "F_FULLFSYNC", None)


def _sync(path: str, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        if _FULLFSYNC is not None:  # macOS: fsync alone leaves the bytes in the drive's cache
            fcntl.fcntl(fd, _FULLFSYNC)
        else:
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: str) -> None:
    """Bring the bytes of the file ``path`` to the disk. Raises OSError."""
    _sync(path, os.O_RDONLY)


def sync_dir(path: str) -> None:
    """Bring the names in the folder ``path`` to the disk. Raises OSError."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def sync_filesystem(path: str) -> bool:
    """Bring all that was written to the file system of ``path`` to the disk.

    Returns:
        False where the system cannot (it is Linux only); nothing is done then.

    Raises:
        OSError: Something could not be written (syncfs reports it from Linux 5.8 on).
    """
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(fd)
    return True
