"""Plumbing in a Git repository: objects, refs, history, verification. No hooks, no index."""

from dvc_ckpt_recover.git.history import (
    checkpoints_of,
    closing_of,
    commits_between,
    partial_of_task,
)
from dvc_ckpt_recover.git.refs import LIVE, RUNS, Refs
from dvc_ckpt_recover.git.remotes import from_remotes
from dvc_ckpt_recover.git.store import Store
from dvc_ckpt_recover.git.transfer import copy_history
from dvc_ckpt_recover.git.verify import new_objects, verify_history

__all__ = [
    "LIVE",
    "RUNS",
    "Refs",
    "Store",
    "checkpoints_of",
    "closing_of",
    "commits_between",
    "copy_history",
    "from_remotes",
    "new_objects",
    "partial_of_task",
    "verify_history",
]
