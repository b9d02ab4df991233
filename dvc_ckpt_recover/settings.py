"""Names and defaults of the settings, and how they are read from an environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ENV_OFF = "DVC_CKPT_RECOVER"
"""``0`` turns the package off."""
ENV_ADDRESS = "DVC_CKPT_RECOVER_ADDRESS"
"""Where the trainer asks for a checkpoint; set for each stage command."""
ENV_RUN = "DVC_CKPT_RECOVER_RUN"
"""The run's id; set for each stage command, by which its processes are found again."""
ENV_GRACE = "DVC_CKPT_RECOVER_GRACE"
"""Seconds that a trainer gets between a polite end and going on without it."""
ENV_AUTO = "DVC_CKPT_RECOVER_AUTO"
"""``0``: do not recover orphans at the start of ``dvc exp run``."""

MAX_REQUEST = 64 * 1024
"""Bytes; a longer request to the checkpoint server is refused."""
IN_FLIGHT = 2
"""Checkpoints that may be staged and not yet stored at one time."""
DEFAULT_GRACE = 10.0


def is_off(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether the package is switched off."""
    return (os.environ if environ is None else environ).get(ENV_OFF) == "0"


def grace(environ: Mapping[str, str] | None = None) -> float:
    """Return the grace time in seconds; a value that is no number counts as the default."""
    text = (os.environ if environ is None else environ).get(ENV_GRACE, "")
    try:
        return max(0.0, float(text))
    except ValueError:
        return DEFAULT_GRACE
