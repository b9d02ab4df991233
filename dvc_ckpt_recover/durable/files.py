"""Write-sync-rename, private folders, bounded JSON.

Failure rule: a file under its final name is always whole; what fails leaves the old one.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from typing import Any

from dvc_ckpt_recover.durable.sync import sync_dir
from dvc_ckpt_recover.errors import DamagedError

_MAX_JSON = 16 * 1024 * 1024


def make_private_dir(path: str) -> str:
    """Make the folder ``path`` (mode 0700) with its parents and return it."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def write_bytes(path: str, data: bytes) -> None:
    """Put ``data`` under ``path`` (mode 0600): written aside, synced, renamed, folder synced.

    Raises:
        OSError: Nothing was changed under ``path``.
    """
    folder = os.path.dirname(path)
    fd, aside = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")  # mode 0600
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        raise
    sync_dir(folder)


def write_json(path: str, value: dict[str, Any]) -> None:
    """Put ``value`` as UTF-8 JSON under ``path``, see ``write_bytes``."""
    write_bytes(path, json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8"))


def read_json(path: str) -> dict[str, Any]:
    """Return the JSON object in ``path``.

    Raises:
        FileNotFoundError: There is no such file.
        DamagedError: It is not a JSON object in UTF-8, or larger than 16 MiB.
    """
    with open(path, "rb") as file:
        data = file.read(_MAX_JSON + 1)
    try:
        value = json.loads(data.decode("utf-8")) if len(data) <= _MAX_JSON else None
    except ValueError as exc:
        msg = f"{path} is not JSON ({exc})"
        raise DamagedError(msg) from exc
    if not isinstance(value, dict):
        msg = f"{path} is not a JSON object of at most 16 MiB"
        raise DamagedError(msg)
    return value


def remove_file(path: str) -> None:
    """Remove the file ``path``; it may be gone already."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
