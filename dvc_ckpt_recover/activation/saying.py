"""The handler around every dvc command; it imports little, since every command pays for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover.reporting import messages

if TYPE_CHECKING:
    from dvc_ckpt_recover.patching import Call, Steps


def main(call: Call) -> Steps:  # noqa: ARG001
    """Around ``dvc.cli.main``: say what was kept, after DVC has said what went wrong."""
    messages.hold()
    yield
    messages.flush()
