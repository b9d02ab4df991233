"""Values that all levels share; no input or output happens here."""

from dvc_ckpt_recover.model.cause import Cause
from dvc_ckpt_recover.model.salvaged import Salvaged
from dvc_ckpt_recover.model.trailers import CheckpointNote, ClosingNote

__all__ = ["Cause", "CheckpointNote", "ClosingNote", "Salvaged"]
