"""Orbax: a step is written into a folder with another name, which is renamed when it is whole.

Its ``_CHECKPOINT_METADATA`` gets the time of the commit last (Orbax 0.5 and later); where a rename
is not atomic, ``commit_success.txt`` is written instead.
"""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING

from dvc_ckpt_recover.formats.member import TornError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dvc_ckpt_recover.formats.member import Member

_METADATA = "_CHECKPOINT_METADATA"
_SUCCESS = "commit_success.txt"
_UNFINISHED = ".orbax-checkpoint-tmp"
_COMMITTED = "commit_timestamp_nsecs"


def fits(members: Mapping[str, Member]) -> bool:
    """Return whether the folder has a step, finished or not."""
    return any(posixpath.basename(path) == _METADATA or _UNFINISHED in path for path in members)


def check(members: Mapping[str, Member]) -> set[str]:
    """Return the files of finished steps.

    Raises:
        TornError: No step is finished, or one that carries a finished step's name is not.
    """
    steps = [
        posixpath.dirname(path)
        for path in members
        if posixpath.basename(path) == _METADATA and _UNFINISHED not in path
    ]
    if not steps:
        raise TornError("no step in it is finished")
    for step in steps:
        path = posixpath.join(step, _METADATA)
        if posixpath.join(step, _SUCCESS) not in members and not _is_committed(members[path]):
            raise TornError("the step was not finished", path)
    inside = tuple(f"{step}/" if step else "" for step in steps)
    return {path for path in members if _UNFINISHED not in path and path.startswith(inside)}


def _is_committed(metadata: Member) -> bool:
    try:
        return bool(json.loads(metadata.read())[_COMMITTED])
    except (ValueError, KeyError, TypeError):
        return False
