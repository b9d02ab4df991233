"""What was found of a stage whose trainer died."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Salvaged:
    """What a salvage kept and what not.

    Attributes:
        sha: The unproven checkpoint, or None.
        left_out: What was left out, with the reason, one line each.
    """

    sha: str | None = None
    left_out: tuple[str, ...] = ()
