"""The short block after a run: what was kept, why it ended, how to go on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dvc_ckpt_recover.dvc_api.executors import experiment_name
from dvc_ckpt_recover.dvc_api.project import write_line
from dvc_ckpt_recover.runs import Ended

if TYPE_CHECKING:
    from dvc_ckpt_recover.model import ClosingNote
    from dvc_ckpt_recover.recovery.ending import Ending

_held: list[list[list[str]]] = []
"""At most one list of blocks, while they are held."""


def hold() -> None:
    """Keep blocks until ``flush``, so that they come after DVC's own last words."""
    _held[:] = [[]]


def are_held() -> bool:
    """Return whether a dvc command is running, which will say at its end what is held."""
    return bool(_held)


def flush() -> None:
    """Write what was held."""
    blocks = _held.pop() if _held else []
    if blocks:
        sys.stdout.flush()  # where both go to one file, DVC's last words stay before ours
    for block in blocks:
        say(block)


def say(block: list[str]) -> None:
    """Write a block of lines to stderr, or hold it."""
    if _held:
        _held[0].append(block)
    else:
        say_now(block)


def say_now(block: list[str]) -> None:
    """Write a block of lines to stderr, held or not: a worker's command lasts for many runs."""
    for line in block:
        write_line(line)


def kept_dir(path: str, why: str) -> list[str]:
    """Return the block for a temp dir that stays."""
    return [
        "",
        f"Nothing was removed: {why}.",
        f"  The run's files are in {path}",
        "  Once that is mended: dvc exp recover",
    ]


def of_ending(ending: Ending) -> list[str]:
    """Return the block for the end of a run; empty when there is nothing to say."""
    if ending.kept_dir is not None:
        return kept_dir(ending.kept_dir, ending.why_kept)
    lines: list[str] = []
    if ending.ended == Ended.PARTIAL:
        lines += _partial(ending)
    elif ending.ended == Ended.FAILED:
        lines += [
            "",
            f"Experiment '{ending.name}' failed and left no checkpoint: {ending.cause}.",
            f"  It is listed as Failed until: dvc exp remove {ending.name}",
        ]
    elif ending.carried:
        lines += ["", f"DVC lost the experiment; it was carried over as '{ending.name}'."]
    if ending.wanted:
        lines.append(f"  The name '{ending.wanted}' was taken by another experiment.")
    if ending.salvaged:
        lines.append("  The newest was taken after the trainer died, from files that are whole.")
    lines += [f"  Left out, of the trainer that died: {one}" for one in ending.left_out]
    if ending.skipped:
        lines.append(f"  {len(ending.skipped)} checkpoint(s) skipped: {ending.skipped[-1]}")
    return lines


def of_followed(runs: list[tuple[str, tuple[str, ClosingNote] | None]], count: int) -> list[str]:
    """Return the block after following ``count`` runs.

    Args:
        runs: For each one that did not finish, its name and what it left: its ref and note.
        count: How many were followed in all.
    """
    lines = ["", f"{len(runs)} of {count} experiments did not finish:"]
    for name, left in runs:
        if left is None:
            lines.append(f"  {name}: left no checkpoint; see: dvc queue logs {name}")
        else:
            ref, note = left
            kept = f"kept {note.checkpoints} checkpoint{'' if note.checkpoints == 1 else 's'}"
            lines.append(f"  {experiment_name(ref)}: {kept} (Partial): {note.cause}")
    return lines


def _partial(ending: Ending) -> list[str]:
    count = ending.checkpoints
    plural = "checkpoint" if count == 1 else "checkpoints"
    return [
        "",
        f"Kept {count} {plural} of experiment '{ending.name}' (Partial): {ending.cause}.",
        "  See it:               dvc exp show",
        f"  Into the workspace:   dvc exp apply {ending.name}",
        f"  Go on from there:     dvc exp resume {ending.name}",
    ]
