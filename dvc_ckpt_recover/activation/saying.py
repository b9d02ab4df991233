"""The handler around every dvc command; it imports little, since every command pays for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.reporting import messages

if TYPE_CHECKING:
    from dvc_ckpt_recover.patching import Call, Steps

_UNFINISHED = 255
"""Exit code of DVC when a run failed."""


def main(call: Call) -> Steps:  # noqa: ARG001
    """Around ``dvc.cli.main``: say what was kept, after DVC has said what went wrong.

    A command that followed a run of the queue which did not finish fails too.
    """
    messages.hold()
    outcome = yield
    following, signals = (_if_used(name) for name in ("following", "signals"))
    if following and following.failed_to_finish() and outcome.value == 0:
        outcome.value = _UNFINISHED
    messages.flush()
    code = signals.exit_code() if signals else None
    if code is not None and outcome.error is None:
        outcome.value = code


def _if_used(name: str) -> Any:  # noqa: ANN401
    """Return a module beside this one if the command has loaded it."""
    return sys.modules.get(f"{__package__}.{name}")
