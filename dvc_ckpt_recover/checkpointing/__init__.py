"""While a run lives: copy its outputs aside, store them, commit them, move its live ref."""

from dvc_ckpt_recover.checkpointing.commit import Committer
from dvc_ckpt_recover.checkpointing.finishing import finish_staged
from dvc_ckpt_recover.checkpointing.salvage import salvage
from dvc_ckpt_recover.checkpointing.session import RunSession, session_for
from dvc_ckpt_recover.checkpointing.staged import Staged, staged_of

__all__ = [
    "Committer",
    "RunSession",
    "Staged",
    "finish_staged",
    "salvage",
    "session_for",
    "staged_of",
]
