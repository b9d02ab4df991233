"""The one place that wires the package into DVC, once a process.

Failure rule: a point that cannot be bound is noted; the others are bound all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover.activation.witness import testify_at_exit
from dvc_ckpt_recover.dvc_api.points import POINTS
from dvc_ckpt_recover.patching import Binding, ImportWatcher, bind

if TYPE_CHECKING:
    from types import ModuleType

_HERE = "dvc_ckpt_recover.activation"

HANDLERS = {
    "init_git": f"{_HERE}.running:set_up",
    "reproduce": f"{_HERE}.running:reproduce",
    "native_checkpoint": f"{_HERE}.running:native_checkpoint",
    "stage_command": f"{_HERE}.running:stage_command",
    "stage_environment": f"{_HERE}.running:stage_environment",
    "stage_reproduced": f"{_HERE}.running:stage_reproduced",
    "cleanup": f"{_HERE}.ending:clean_up",
    "exp_commands": f"{_HERE}.commands:add_parser",
    "main": f"{_HERE}.ending:main",
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
    ImportWatcher(dict.fromkeys(modules, _bind_points)).install()


def _bind_points(module: ModuleType) -> None:
    from dvc_ckpt_recover.dvc_api.version import in_window

    for point in POINTS:
        if point.module != module.__name__:
            continue
        if in_window(point.window):
            bindings[point.name] = bind(point, module, HANDLERS[point.name])
        else:
            bindings[point.name] = Binding(point, "not in this version")
