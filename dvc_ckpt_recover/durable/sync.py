"""Bring files and the names in folders to the disk; one face for all platforms.

Failure rule: an error of the sync is raised, for it means that the bytes may be lost.
"""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":  # pragma: no cover
    from dvc_ckpt_recover.durable.sync_windows import sync_dir, sync_file
else:
    from dvc_ckpt_recover.durable.sync_posix import sync_dir, sync_file

__all__ = ["sync_dir", "sync_dirs_up", "sync_file"]


def sync_dirs_up(path: str, top: str) -> None:
    """Sync the folder of ``path`` and each folder above it, up to and with ``top``."""
    top = os.path.abspath(top)
    folder = os.path.dirname(os.path.abspath(path))
    while folder.startswith(top):
        sync_dir(folder)
        if folder == top:
            return
        folder = os.path.dirname(folder)
