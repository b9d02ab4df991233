"""Names and defaults of the settings, and how they are read from an environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Mapping

ENV_OFF = "DVC_CKPT_RECOVER"
"""``0`` turns the package off."""
ENV_ADDRESS = "DVC_CKPT_RECOVER_ADDRESS"
"""Where the trainer asks for a checkpoint; set for each stage command."""
ENV_FILE = "DVC_CKPT_RECOVER_FILE"
"""Path that a trainer of any language creates to ask for a checkpoint; set for each stage."""
ENV_PID = "DVC_CKPT_RECOVER_PID"
"""The dvc process that answers; set for each stage command."""
ENV_RUN = "DVC_CKPT_RECOVER_RUN"
"""The run's id; set for each stage command, by which its processes are found again."""
ENV_GRACE = "DVC_CKPT_RECOVER_GRACE"
"""Seconds that a trainer gets between a polite end and going on without it."""
ENV_AUTO = "DVC_CKPT_RECOVER_AUTO"
"""``0``: do not recover orphans at the start of ``dvc exp run``."""
ENV_WITNESS = "DVC_CKPT_RECOVER_WITNESS"
"""A file that each hooked process adds a line to at its end; set by ``doctor`` alone."""

MAX_REQUEST = 64 * 1024
"""Bytes; a longer request to the checkpoint server is refused."""
IN_FLIGHT = 2
"""Checkpoints that may be staged and not yet stored at one time."""
DEFAULT_GRACE = 10.0


def is_off(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether the package is switched off."""
    return (os.environ if environ is None else environ).get(ENV_OFF) == "0"


def recovers_by_itself(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether orphans are recovered at the start of a run."""
    return (os.environ if environ is None else environ).get(ENV_AUTO) != "0"


def grace(environ: Mapping[str, str] | None = None) -> float:
    """Return the grace time in seconds; a value that is no number counts as the default."""
    text = (os.environ if environ is None else environ).get(ENV_GRACE, "")
    try:
        return max(0.0, float(text))
    except ValueError:
        return DEFAULT_GRACE


def _is_share(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def _is_count(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_switch(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, bool)


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "budget": (_is_share, "a number from 0 to 1, such as 0.05 for 5 % of the time"),
    "every": (_is_count, "a whole number from 1"),
    "keep": (_is_count, "a whole number from 1"),
    "salvage": (_is_switch, "true or false"),
}


@dataclass(frozen=True)
class StageSettings:
    """What ``meta: {checkpoint: {...}}`` of a stage in ``dvc.yaml`` says.

    Attributes:
        budget: Share of the stage's time that automatic checkpoints may make its trainer wait.
        every: Only each ``every``-th automatic call makes a checkpoint.
        keep: How many checkpoints, the newest, the run keeps; None for all.
        salvage: Whether what a dead trainer left behind may be kept as an unproven checkpoint.
    """

    budget: float = 0.05
    every: int = 1
    keep: int | None = None
    salvage: bool = True

    @classmethod
    def read(cls, meta: Mapping[str, Any]) -> tuple[StageSettings, tuple[str, ...]]:
        """Return the settings in a stage's ``meta``, and what is wrong there, one line each.

        What is wrong counts as not said, so that a slip of the pen never stops a training.
        """
        said = meta.get("checkpoint")
        if said is None:
            return cls(), ()
        if not isinstance(said, dict):
            return cls(), (f"meta.checkpoint must be a mapping, not {said!r}; it is ignored",)
        wrong = []
        good: dict[str, Any] = {}
        for key, value in said.items():
            if key not in _RULES:
                known = ", ".join(field.name for field in fields(cls))
                wrong.append(f"meta.checkpoint has no key {key!r} (there are: {known}); ignored")
            elif not _RULES[key][0](value):
                used = getattr(cls, key)
                what = f"meta.checkpoint.{key} must be {_RULES[key][1]}, not {value!r}"
                wrong.append(f"{what}; {'nothing' if used is None else used} is used")
            else:
                good[key] = value
        return cls(**good), tuple(wrong)
