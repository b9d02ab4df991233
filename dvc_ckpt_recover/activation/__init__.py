"""The one place that wires the package into DVC, once a process.

Failure rule: a point that cannot be bound is noted; the others are bound all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover.activation.training import add_make_checkpoint
from dvc_ckpt_recover.activation.witness import testify_at_exit
from dvc_ckpt_recover.dvc_api.points import POINTS
from dvc_ckpt_recover.patching import Binding, ImportWatcher, bind

if TYPE_CHECKING:
    from types import ModuleType

_HERE = "dvc_ckpt_recover.activation"

HANDLERS = {
    "load_outputs": f"{_HERE}.running:load_outputs",
    "output_flags": f"{_HERE}.running:output_flags",
    "init_git": f"{_HERE}.running:set_up",
    "workspace_init_git": f"{_HERE}.workspace:set_up",
    "workspace_cleanup": f"{_HERE}.workspace:clean_up",
    "reproduce": f"{_HERE}.running:reproduce",
    "native_checkpoint": f"{_HERE}.running:native_checkpoint",
    "stage_command": f"{_HERE}.running:stage_command",
    "stage_environment": f"{_HERE}.running:stage_environment",
    "stage_reproduced": f"{_HERE}.running:stage_reproduced",
    "cleanup": f"{_HERE}.ending:clean_up",
    "collect": f"{_HERE}.showing:collect",
    "collect_active": f"{_HERE}.showing:collect_active",
    "collect_failed": f"{_HERE}.showing:collect_failed",
    "collect_successful": f"{_HERE}.showing:collect_successful",
    "state_read": f"{_HERE}.showing:state_read",
    "table_rows": f"{_HERE}.showing:table_rows",
    "table_order": f"{_HERE}.showing:table_order",
    "print_table": f"{_HERE}.showing:print_table",
    "temp_entries": f"{_HERE}.showing:queue_entries",
    "temp_rows": f"{_HERE}.showing:queue_active_rows",
    "workspace_rows": f"{_HERE}.showing:workspace_rows",
    "task_active": f"{_HERE}.showing:queue_entries",
    "task_done": f"{_HERE}.showing:queue_entries",
    "task_results": f"{_HERE}.showing:queue_entries",
    "task_rows": f"{_HERE}.showing:queue_active_rows",
    "queue_status": f"{_HERE}.showing:queue_status",
    "queued_rows": f"{_HERE}.showing:queue_rows",
    "failed_rows": f"{_HERE}.showing:queue_rows",
    "success_executors": f"{_HERE}.showing:queue_rows",
    "dict": f"{_HERE}.showing_v2:show",
    "dict_names": f"{_HERE}.showing_v2:names_read",
    "dict_names_of_refs": f"{_HERE}.showing_v2:names_read",
    "dict_commit": f"{_HERE}.showing_v2:commit_read",
    "dict_state": f"{_HERE}.showing_v2:commit_read",
    "dict_branch": f"{_HERE}.showing_v2:branch_read",
    "dict_experiment": f"{_HERE}.showing_v2:experiment_read",
    "dict_rows": f"{_HERE}.showing_v2:table_rows",
    "dict_temp_entries": f"{_HERE}.showing_v2:temp_entries",
    "dict_task_entries": f"{_HERE}.showing_v2:task_entries",
    "dict_running": f"{_HERE}.showing_v2:running_read",
    "dict_in_queue": f"{_HERE}.showing_v2:running_read",
    "dict_in_workspace": f"{_HERE}.showing:workspace_rows",
    "exp_remove": f"{_HERE}.removing:exp_remove",
    "queue_remove": f"{_HERE}.removing:queue_remove",
    "queue_clear": f"{_HERE}.removing:queue_clear",
    "run_command": f"{_HERE}.auto:before_command",
    "queue_start": f"{_HERE}.auto:before_command",
    "gc": f"{_HERE}.collecting:gc",
    "used_objects": f"{_HERE}.collecting:used_objects",
    "exp_commands": f"{_HERE}.commands:add_parser",
    "run_all": f"{_HERE}.following:run_all",
    "follow": f"{_HERE}.following:follow",
    "main": f"{_HERE}.saying:main",
}
"""Logical point -> handler, imported when it is first called."""

bindings: dict[str, Binding] = {}
"""What became of each point in this process."""


def activate() -> None:
    """Watch for DVC's modules and bind their points; without effect the second time."""
    if bindings:
        return
    bindings.update({point.name: Binding(point) for point in POINTS})
    testify_at_exit(bindings)
    modules = dict.fromkeys(point.module for point in POINTS)
    callbacks = dict.fromkeys(modules, _bind_points)
    ImportWatcher({**callbacks, "dvc.api": add_make_checkpoint}).install()


def _bind_points(module: ModuleType) -> None:
    from dvc_ckpt_recover.dvc_api.version import in_window

    for point in POINTS:
        if point.module != module.__name__:
            continue
        if in_window(point.window):
            bindings[point.name] = bind(point, module, HANDLERS[point.name])
        else:
            bindings[point.name] = Binding(point, "not in this version")
