"""Syncing on Windows, where names in folders cannot be synced (NTFS journals them)."""

from __future__ import annotations

import os


def sync_file(path: str) -> None:
    """Bring the bytes of the file ``path`` to the disk. Raises OSError."""
    with open(path, "r+b") as file:
        os.fsync(file.fileno())


def sync_dir(path: str) -> None:
    """Do nothing: NTFS has no call for it."""


def sync_filesystem(path: str) -> bool:  # noqa: ARG001
    """Return False: this needs an administrator here."""
    return False
