"""A little disk kept from a run's start, so that its end can be brought in on a full one.

Failure rule: without room for it there is none; that is no error.
"""

from __future__ import annotations

import errno
import os

from dvc_ckpt_recover.durable.files import remove_file

SIZE = 1 << 20
"""Bytes: many times what the Git objects, refs and the receipt of an end take."""


_FEW = 16
"""Inodes: some of the last ones come free again when what failed is undone."""


def keep_reserve(path: str) -> bool:
    """Take ``SIZE`` bytes of disk under ``path``; return whether there was room."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, SIZE)
            else:  # pragma: no cover - Windows and macOS
                os.write(fd, b"\xff" * SIZE)
        finally:
            os.close(fd)
    except OSError:
        try:
            remove_file(path)
        except OSError:
            return False
        return False
    return True


def is_full(error: BaseException) -> bool:
    """Return whether ``error``, or what caused it, says that the disk or a quota is full."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if any(words in str(seen) for words in ("No space left", "quota exceeded")):
            return True  # libgit2's errors have no number
        seen = seen.__cause__
    return False


def has_no_inodes(path: str) -> bool:
    """Return whether the file system of ``path`` has space, maybe, but takes no more files."""
    if not hasattr(os, "statvfs"):
        return False
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    return found.f_files > 0 and found.f_favail < _FEW
