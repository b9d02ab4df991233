"""Handlers for runs in the workspace itself (``dvc exp run`` without ``--temp``) on DVC 3.

The same checkpoints, and the same partial experiment when it does not finish; nothing is ever
removed or changed in the workspace, for it is the user's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dvc_ckpt_recover.activation import signals
from dvc_ckpt_recover.activation.ending import after, end, signals_wait
from dvc_ckpt_recover.activation.running import begin
from dvc_ckpt_recover.checkpointing.session import open_session
from dvc_ckpt_recover.dvc_api import executors
from dvc_ckpt_recover.reporting import messages
from dvc_ckpt_recover.runs import Ended, Mode, Places

if TYPE_CHECKING:
    from dvc_ckpt_recover.patching import Call, Steps


def set_up(call: Call) -> Steps:
    """Around ``WorkspaceExecutor.init_git``: take the lease and write the record."""
    setup = executors.setup_of(call)
    places = Places(os.path.join(setup.root_dir, setup.dvc_dir, "tmp"))
    run_id = f"workspace-{setup.stash_rev[:12]}-{places.project}"
    session = begin(places, setup, run_id, Mode.WORKSPACE)
    outcome = yield
    if outcome.error is not None:
        session.abandon()


def clean_up(call: Call) -> Steps:
    """Around ``WorkspaceExecutor.cleanup``: keep the checkpoints of a run that did not finish."""
    session = open_session(call["self"].root_dir)
    if session is None:
        yield
        return
    with signals_wait():
        ending = end(session, call["infofile"])
        if ending.ended != Ended.FAILED:  # that one kept nothing: as without us, it has no row
            messages.say(messages.of_ending(ending))
        yield
        after(session, ending)
    signals.disarm()
