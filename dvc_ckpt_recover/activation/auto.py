"""Recover orphans before ``dvc exp run`` and ``dvc queue start`` do their work.

Failure rule: what cannot be recovered is one line and never stops the command; no new recovery is
begun once the time is over.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover import settings

if TYPE_CHECKING:
    from dvc_ckpt_recover.patching import Call, Steps

_BUDGET = 20.0


def before_command(call: Call) -> Steps:
    """Around the ``run`` of both commands."""
    if settings.recovers_by_itself() and settings.ENV_RUN not in os.environ:
        recover_orphans(call["self"].repo, time.monotonic() + _BUDGET)
    yield


def recover_orphans(repo: Any, until: float) -> None:  # noqa: ANN401
    """Recover what has a run's owner no more, and say one line for each.

    Args:
        repo: DVC's ``Repo``.
        until: ``time.monotonic()`` after which no further run is begun.
    """
    from dvc_ckpt_recover.dvc_api.executors import main_root_of
    from dvc_ckpt_recover.recovery.mend import drop_empty_objects

    root = main_root_of(repo)
    if root is None:
        return
    drop_empty_objects(root)  # the new run may need one of them
    if not _is_needed(repo, root):
        return
    from dvc_ckpt_recover.activation.recovering import Recovery, line_of
    from dvc_ckpt_recover.dvc_api.project import write_line
    from dvc_ckpt_recover.runs.survey import RunState

    recovery = Recovery(repo)
    due = [run for run in recovery.runs() if run.state in (RunState.ORPHAN, RunState.EMPTY)]
    for number, facts in enumerate(due):
        if time.monotonic() > until:
            write_line(f"{len(due) - number} more runs can be recovered with: dvc exp recover")
            return
        done = recovery.recover(facts)
        if not done.error:
            write_line(line_of(done))
        elif not facts.leftover:  # one that plain DVC left is told of by `dvc exp recover` alone
            write_line(f"'{done.name}' was not recovered: {done.error}; see: dvc exp recover")
    recovery.tidy()


def _is_needed(repo: Any, root: str) -> bool:  # noqa: ANN401
    """Return whether there is any trace of a run; cheap, for the ordinary case of none."""
    tmp = str(repo.tmp_dir)
    exps = os.path.join(tmp, "exps")
    for folder in (os.path.join(tmp, "ckpt-recover"), exps, os.path.join(exps, "standalone")):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        if folder.endswith("ckpt-recover") or any(name.startswith("tmp") for name in names):
            return True
    from dvc_ckpt_recover.git import LIVE, RUNS, Refs, Store

    refs = Refs(Store(root))
    return bool(refs.list(LIVE) or refs.list(RUNS))
