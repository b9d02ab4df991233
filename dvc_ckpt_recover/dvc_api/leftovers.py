"""Runs that DVC takes for running and that no record of ours speaks of."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import pygit2

from dvc_ckpt_recover.durable import read_json
from dvc_ckpt_recover.dvc_api.executors import RUNNING, read_info
from dvc_ckpt_recover.errors import RecoverError
from dvc_ckpt_recover.git import Store
from dvc_ckpt_recover.runs import leftovers

CAUSE = "dvc was killed"


@dataclass
class Leftover:
    """A run that plain DVC left when it was killed.

    Attributes:
        stash_rev: Commit with its code and params.
        baseline: Commit that its experiment belongs to.
        name: Its name.
        root: Its temp dir, or None when that is gone.
        revs: DVC's rows of the commits in its temp dir, newest first.
        local: What ``--json`` says of its process.
    """

    stash_rev: str
    baseline: str
    name: str | None
    root: str | None = None
    revs: list[Any] = field(default_factory=list)
    local: Any = None


def judge(queue: Any, entry: Any) -> Leftover | None:  # noqa: ANN401
    """Return an entry as a leftover when nobody works for it any more, or None when it runs."""
    process = getattr(queue.proc.get(entry.stash_rev), "pid", None)
    root = _root(queue, entry.stash_rev)
    in_queue = hasattr(queue, "celery")
    if root is not None and leftovers.is_worked_in(root):
        return None
    if process is not None and leftovers.is_running("exec-run", process):
        return None
    if in_queue and process is None and leftovers.is_running("queue-worker"):
        return None  # about to be set up
    return Leftover(entry.stash_rev, entry.baseline_rev, entry.name, root)


def has_commits(leftover: Leftover) -> bool:
    """Return whether DVC 2 made checkpoints in the temp dir of a leftover."""
    if leftover.root is None:
        return False
    try:
        head = Store(leftover.root).repo.head.target
    except (RecoverError, pygit2.GitError, OSError):
        return False
    return str(head) != leftover.baseline


def _root(queue: Any, stash_rev: str) -> str | None:  # noqa: ANN401
    try:
        value = read_json(queue.get_infofile_path(stash_rev)).get("root_dir")
    except Exception:  # noqa: BLE001
        return None
    return value if isinstance(value, str) and os.path.isdir(value) else None


def is_ending(queue: Any, stash_rev: str) -> bool:  # noqa: ANN401
    """Return whether DVC is through with a run and a worker has yet to mark its task as done."""
    info = read_info(queue.get_infofile_path(stash_rev))
    return info is not None and info.status > RUNNING and leftovers.is_running("queue-worker")
