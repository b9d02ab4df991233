"""Go on with a partial experiment: choose a checkpoint, verify it, start DVC on its branch."""

from dvc_ckpt_recover.resuming.choose import Choice, Rejected, choose
from dvc_ckpt_recover.resuming.partial import Partial, find_partial, partials_of
from dvc_ckpt_recover.resuming.verify import Verifier

__all__ = [
    "Choice",
    "Partial",
    "Rejected",
    "Verifier",
    "choose",
    "find_partial",
    "partials_of",
]
