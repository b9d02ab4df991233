"""How much disk a folder takes that its removal would free.

Failure rule: what cannot be looked at counts for nothing.
"""

from __future__ import annotations

import os

_STEP = 1000
_BLOCK = 512  # of st_blocks, whatever the file system's own is (stat(2))


def disk_usage(top: str) -> int:
    """Return the bytes of all files below ``top`` that have no other name, links not followed."""
    total = 0
    for folder, folders, names in os.walk(top):
        for name in (*folders, *names):
            try:
                status = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            is_folder = name in folders and not os.path.islink(os.path.join(folder, name))
            if is_folder or status.st_nlink == 1:
                total += getattr(status, "st_blocks", 0) * _BLOCK
    return total


def humanize(size: int) -> str:
    """Return a number of bytes as text, with one decimal: ``1.5 MB``."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < _STEP:
            break
        value, unit = value / _STEP, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
