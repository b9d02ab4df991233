"""The temp dirs that DVC runs experiments in, and the lock files in them.

Failure rule: what disappears while it is looked at is left out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.runs.places import Places

TOMBSTONE = ".removing"
"""Ends the name of a temp dir that was set aside to be removed."""
_LOCK = "dvc.lock"


def temp_dirs(places: Places) -> Iterator[str]:
    """Return all temp dirs of a project, those that were set aside included."""
    for folder in (places.exps, os.path.join(places.exps, "standalone")):
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:  # mkdtemp's names; anything else is not DVC's temp dir
            if entry.name.startswith("tmp") and entry.is_dir(follow_symlinks=False):
                yield entry.path


def locks_in(top: str) -> Iterator[tuple[str, bytes]]:
    """Return the lock files below ``top``: path relative to it, with ``/``, and bytes."""
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in (".git", ".dvc"))
        if _LOCK in names:
            path = os.path.join(folder, _LOCK)
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                continue
            yield os.path.relpath(path, top).replace(os.sep, "/"), data
