"""The hook points as data: where each logical point is, in which versions.

Seen in DVC 2.31.0, 2.58.2 and 3.67.1. A point that a version does not have is a line in ``status``.
"""

from __future__ import annotations

from dvc_ckpt_recover.patching import Point

_EXECUTOR = "dvc.repo.experiments.executor.base"
_LOCAL = "dvc.repo.experiments.executor.local"
_QUEUE = "dvc.repo.experiments.queue"
_RUN = "dvc.stage.run"
_COLLECT = "dvc.repo.experiments.collect"

POINTS = (
    Point("init_git", _LOCAL, "TempDirExecutor.init_git", ("self", "stash_rev", "entry", "branch")),
    Point("cleanup", _LOCAL, "TempDirExecutor.cleanup", ("self", "infofile")),
    Point("reproduce", _EXECUTOR, "BaseExecutor.reproduce", ("info", "infofile")),
    Point(
        "native_checkpoint",
        _EXECUTOR,
        "BaseExecutor.checkpoint_callback",
        ("dvc", "scm"),
        (None, "3.0"),
    ),
    Point("stage_command", _RUN, "cmd_run", ("stage", "dry")),
    Point("stage_environment", _RUN, "prepare_kwargs", ("stage",)),
    Point("stage_reproduced", "dvc.repo.reproduce", "_reproduce_stage", ("stage", "kwargs")),
    Point("exp_commands", "dvc.commands.experiments", "add_parser"),
    Point("main", "dvc.cli", "main", ("argv",)),
)
