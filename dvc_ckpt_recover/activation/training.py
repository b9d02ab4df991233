"""What is wired in the training process: DVCLive's hooks, and ``dvc.api.make_checkpoint``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover.patching import ImportWatcher

if TYPE_CHECKING:
    from types import ModuleType


def watch_live() -> None:
    """Hook DVCLive's modules when they are imported."""
    from dvc_ckpt_recover.trainer.live import HOOKS

    ImportWatcher(dict(HOOKS)).install()


def add_make_checkpoint(module: ModuleType) -> None:
    """Give ``dvc.api`` the function again that DVC 3 dropped, so that old scripts go on."""
    if not hasattr(module, "make_checkpoint"):
        from dvc_ckpt_recover.trainer import make_checkpoint

        module.make_checkpoint = make_checkpoint  # type: ignore[attr-defined]
