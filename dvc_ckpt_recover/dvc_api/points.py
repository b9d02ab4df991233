"""The hook points as data: where each logical point is, in which versions.

Seen in DVC 2.31.0, 2.58.2 and 3.67.1, and in releases between them: a bound is the release in which
a place appeared or went. A point that a version does not have is a line in ``status``.
"""

from __future__ import annotations

from dvc_ckpt_recover.patching import Point

_EXECUTOR = "dvc.repo.experiments.executor.base"
_LOCAL = "dvc.repo.experiments.executor.local"
_QUEUE = "dvc.repo.experiments.queue"
_RUN = "dvc.stage.run"
_COLLECT = "dvc.repo.experiments.collect"

_CELERY = f"{_QUEUE}.celery"
_TEMPDIR = f"{_QUEUE}.tempdir"
_TABLE = "dvc.repo.experiments.show"
_LISTS = ("2.55", None)
_DICT = (None, "2.55")
"""Since 2.55 ``exp show`` is made of lists; before, of one dict."""
_DICT_BY_QUEUE = ("2.32", "2.55")
"""Since 2.32 each queue reads its own running experiments."""

POINTS = (
    Point("init_git", _LOCAL, "TempDirExecutor.init_git", ("self", "stash_rev", "entry", "branch")),
    Point(
        "workspace_init_git",
        _LOCAL,
        "WorkspaceExecutor.init_git",
        ("self", "stash_rev", "entry", "branch"),
        ("3.0", None),
    ),
    Point(
        "workspace_cleanup",
        _LOCAL,
        "WorkspaceExecutor.cleanup",
        ("self", "infofile"),
        ("3.0", None),
    ),
    Point("cleanup", _LOCAL, "TempDirExecutor.cleanup", ("self", "infofile")),
    Point("reproduce", _EXECUTOR, "BaseExecutor.reproduce", ("info", "infofile")),
    Point(
        "native_checkpoint",
        _EXECUTOR,
        "BaseExecutor.checkpoint_callback",
        ("dvc", "scm"),
        (None, "3.0"),
    ),
    Point("load_outputs", "dvc.output", "load_from_pipeline", ("data",), ("3.0", None)),
    Point("output_flags", "dvc.stage.serialize", "_get_flags", ("out",), ("3.0", None)),
    Point("stage_command", _RUN, "cmd_run", ("stage", "dry")),
    Point("stage_environment", _RUN, "prepare_kwargs", ("stage",)),
    Point("stage_reproduced", "dvc.repo.reproduce", "_reproduce_stage", ("stage", "kwargs")),
    Point("collect", _COLLECT, "collect", ("repo",), _LISTS),
    Point("collect_active", _COLLECT, "collect_active", ("repo", "baseline_revs"), _LISTS),
    Point("collect_failed", _COLLECT, "collect_failed", ("repo", "baseline_revs"), _LISTS),
    Point("collect_successful", _COLLECT, "collect_successful", ("repo", "baseline_revs"), _LISTS),
    Point(
        "state_read",
        "dvc.repo.experiments.serialize",
        "SerializableExp.from_repo",
        ("repo", "rev"),
        ("2.46", None),
    ),
    Point("table_rows", _TABLE, "_exp_range_rows", ("exp_range", "all_headers"), _LISTS),
    Point("table_order", _TABLE, "_sort_exp", ("experiments",), _LISTS),
    Point("print_table", "dvc.commands.experiments.show", "show_experiments", (), _LISTS),
    Point("temp_entries", _TEMPDIR, "TempDirQueue.iter_active", ("self",), _LISTS),
    Point("temp_rows", _TEMPDIR, "TempDirQueue.collect_active_data", ("self",), _LISTS),
    Point(
        "workspace_rows",
        f"{_QUEUE}.workspace",
        "WorkspaceQueue.collect_active_data",
        ("self",),
        _LISTS,
    ),
    Point("task_active", _CELERY, "LocalCeleryQueue._iter_active_tasks", ("self",)),
    Point("task_done", _CELERY, "LocalCeleryQueue._iter_done_tasks", ("self",)),
    Point("task_results", _CELERY, "LocalCeleryQueue.iter_done", ("self",)),
    Point("task_rows", _CELERY, "LocalCeleryQueue.collect_active_data", ("self",), _LISTS),
    Point("queue_status", f"{_QUEUE}.base", "BaseStashQueue.status", ("self",)),
    Point("queued_rows", _CELERY, "LocalCeleryQueue.collect_queued_data", ("self",), _LISTS),
    Point("failed_rows", _CELERY, "LocalCeleryQueue.collect_failed_data", ("self",), _LISTS),
    Point(
        "success_executors",
        _CELERY,
        "LocalCeleryQueue.collect_success_executors",
        ("self",),
        ("3.43", None),
    ),
    Point("dict", _TABLE, "show", ("repo", "hide_failed", "sha_only", "fetch_running"), _DICT),
    Point("dict_names", _TABLE, "get_names", ("repo", "result"), (None, "2.34.3")),
    Point("dict_names_of_refs", _TABLE, "update_names", ("repo", "result"), ("2.34.3", "2.55")),
    # wrapped by DVC in a function of any arguments, until 2.46
    Point("dict_commit", _TABLE, "_collect_experiment_commit", (), (None, "2.34.1")),
    Point("dict_state", _TABLE, "collect_experiment_commit", (), ("2.34.1", "2.55")),
    Point(
        "dict_branch",
        _TABLE,
        "_collect_experiment_branch",
        ("res", "branch"),
        (None, "2.34.1"),
    ),
    Point(
        "dict_experiment",
        _TABLE,
        "_collect_complete_experiment",
        ("exp_rev",),
        ("2.34.1", "2.55"),
    ),
    Point(
        "dict_rows",
        "dvc.commands.experiments.show",
        "_collect_rows",
        ("base_rev", "experiments"),
        _DICT,
    ),
    Point("dict_temp_entries", _TEMPDIR, "TempDirQueue.iter_active", ("self",), _DICT),
    Point("dict_task_entries", _CELERY, "LocalCeleryQueue.iter_active", ("self",), _DICT),
    Point(
        "dict_running",
        "dvc.repo.experiments",
        "Experiments._fetch_running_exp",
        ("rev", "infofile"),
        (None, "2.32"),
    ),
    Point(
        "dict_in_queue",
        f"{_QUEUE}.utils",
        "fetch_running_exp_from_temp_dir",
        ("rev",),
        _DICT_BY_QUEUE,
    ),
    Point(
        "dict_in_workspace",
        f"{_QUEUE}.workspace",
        "WorkspaceQueue.get_running_exps",
        ("self",),
        _DICT_BY_QUEUE,
    ),
    Point(
        "exp_remove",
        "dvc.repo.experiments.remove",
        "remove",
        ("repo", "exp_names", "rev", "all_commits", "num", "git_remote"),
    ),
    Point("queue_remove", f"{_QUEUE}.remove", "celery_remove", ("self", "revs")),
    Point("queue_clear", f"{_QUEUE}.remove", "celery_clear", ("self", "failed")),
    Point("run_command", "dvc.commands.experiments.run", "CmdExperimentsRun.run", ("self",)),
    Point("queue_start", "dvc.commands.queue.start", "CmdQueueStart.run", ("self",)),
    Point("gc", "dvc.repo.gc", "gc", ("self",)),
    Point("used_objects", "dvc.repo", "Repo.used_objs", ("self",)),
    Point("exp_commands", "dvc.commands.experiments", "add_parser"),
    Point("run_all", "dvc.repo.experiments", "Experiments.reproduce_celery", ("self",)),
    Point("follow", f"{_QUEUE}.celery", "LocalCeleryQueue.follow", ("self", "entry", "encoding")),
    Point("main", "dvc.cli", "main", ("argv",)),
)
