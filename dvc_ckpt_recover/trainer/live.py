"""Checkpoints with no change to the code: DVCLive says when a step has ended.

``Live.next_step()`` asks for a checkpoint. PyTorch Lightning's logger never calls it; there a
``Live.sync()`` does that follows a saved model, since Lightning saves first and logs then.

Failure rule: nothing here raises into the training; it asks no more than the budget allows.
"""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING, Any, Callable

from dvc_ckpt_recover.trainer.client import request_checkpoint, warn

if TYPE_CHECKING:
    from types import ModuleType


class Automatic:
    """Asks for automatic checkpoints of this process, and keeps quiet while told to."""

    def __init__(self) -> None:
        self._calls = 0
        self._again_after = 0
        self._quiet_until = 0.0
        self._in_step = False
        self._saved = False

    def step_starts(self, live: Any) -> None:  # noqa: ANN401, ARG002
        """``next_step`` was called, which calls ``sync``."""
        self._in_step = True

    def step_ends(self, live: Any) -> None:  # noqa: ANN401
        """A step has ended: its metrics are on the disk."""
        self._in_step = False
        self._saved = False
        self._ask(live)

    def model_saved(self, logger: Any) -> None:  # noqa: ANN401, ARG002
        """A framework has saved its model, and says so before it logs the metrics."""
        self._saved = True

    def callback_saved(self, callback: Any) -> None:  # noqa: ANN401
        """A callback's model is on the disk, and its metrics were before."""
        if getattr(callback, "live", None) is not None:  # only one rank has one
            self._ask(callback.live)

    def synced(self, live: Any) -> None:  # noqa: ANN401
        """Metrics were written."""
        if self._saved and not self._in_step:
            self._saved = False
            self._ask(live)

    def _ask(self, live: Any) -> None:  # noqa: ANN401
        self._calls += 1
        if self._calls < self._again_after or time.monotonic() < self._quiet_until:
            return
        files = [getattr(live, "dir", None), getattr(live, "dvc_file", None)]
        extra = [os.path.abspath(path) for path in files if path]
        answer = request_checkpoint(auto=True, calls=self._calls, extra=extra)
        self._again_after = answer.again_after
        self._quiet_until = time.monotonic() + answer.again_in
        if answer.reason and not answer.told:
            warn(answer.reason)


automatic = Automatic()
Note = Callable[[Any], None]


def _around(cls: type, name: str, before: Note, after: Note) -> None:
    """Have the method ``name`` call us; where there is none, nothing happens."""
    original = vars(cls).get(name)
    if not callable(original):
        return

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        before(args[0])
        value = original(*args, **kwargs)
        after(args[0])
        return value

    setattr(cls, name, wrapper)


def _nothing(owner: Any) -> None:  # noqa: ANN401
    pass


def hook_live(module: ModuleType) -> None:
    """Hook ``dvclive.live`` (the method names are those of DVCLive 2 and 3)."""
    _around(module.Live, "next_step", automatic.step_starts, automatic.step_ends)
    _around(module.Live, "sync", _nothing, automatic.synced)


def hook_lightning(module: ModuleType) -> None:
    """Hook ``dvclive.lightning``."""
    _around(module.DVCLiveLogger, "after_save_checkpoint", _nothing, automatic.model_saved)


def hook_transformers(module: ModuleType) -> None:
    """Hook Hugging Face's callback, which logs a step, that is ``next_step``, and saves then."""
    _around(module.DVCLiveCallback, "on_save", _nothing, automatic.callback_saved)


HOOKS = {
    "dvclive.live": hook_live,
    "dvclive.lightning": hook_lightning,
    "transformers.integrations.integration_utils": hook_transformers,
}
"""Module -> what to call with it once it was imported."""
