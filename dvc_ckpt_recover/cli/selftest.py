"""``python -m dvc_ckpt_recover selftest``: kill, starve and cut the power of real recoveries.

Failure rule: exit 1 when anything was lost or torn, or a repeat failed; a part that cannot be
tried here is skipped by name.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from dvc_ckpt_recover.selftest.suite import PARTS, Plan, run

if TYPE_CHECKING:
    from dvc_ckpt_recover.selftest.matrix import Tally

_HEADS = ("Points", "Lost", "Torn", "Removed unproven", "Repeats failed", "Crashes", "Seconds")
_NOTES = 20


def main(arguments: list[str]) -> int:
    """Try all of it and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m dvc_ckpt_recover selftest", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="A fixed part of it, in a minute.")
    parser.add_argument("--seed", type=int, default=1, help="Which points and moments are chosen.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    parser.add_argument("--part", action="append", choices=PARTS, help="Only this part.")
    parser.add_argument("--share", type=float, help="Share of the points of each row, 0 to 1.")
    parser.add_argument("--cuts", type=int, default=300, help="Power cuts.")
    args = parser.parse_args(arguments)
    parts = tuple(args.part or PARTS)
    plan = Plan(args.seed, args.quick, parts, args.share, 20 if args.quick else args.cuts)
    if not args.json:
        sys.stdout.write(f"seed {args.seed}\n{_line(_HEADS)}\n")
    rows = run(plan, _nothing if args.json else _tell)
    bad = [row for row in rows if not row.is_clean]
    if args.json:
        told = {"seed": args.seed, "rows": [asdict(row) for row in rows]}
        sys.stdout.write(f"{json.dumps(told, indent=1)}\n")
    else:
        _tell(_sum(rows))
        for row in bad:
            sys.stdout.writelines(f"{note}\n" for note in row.notes[:_NOTES])
    return 1 if bad else 0


def _sum(rows: list[Tally]) -> Tally:
    from dvc_ckpt_recover.selftest.matrix import Tally

    total = Tally("all")
    for row in rows:
        for name in ("points", "lost", "torn", "early", "failed", "unclear", "litter", "seconds"):
            setattr(total, name, getattr(total, name) + getattr(row, name))
    return total


def _nothing(_row: Tally) -> None:
    return


def _tell(row: Tally) -> None:
    if row.skipped:
        sys.stdout.write(f"{'skipped':>8}  {row.label}: {row.skipped}\n")
    else:
        numbers = (row.points, row.lost, row.torn, row.early, row.failed, row.unclear)
        sys.stdout.write(f"{_line((*numbers, f'{row.seconds:.0f}'))}  {row.label}\n")
    sys.stdout.flush()


def _line(cells: tuple[object, ...]) -> str:
    return " ".join(str(cell).rjust(max(8, len(head))) for cell, head in zip(cells, _HEADS))
