"""The whole proof in the order of its table: kills, failing calls, power cuts."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

from dvc_ckpt_recover.selftest import matrix, powercut
from dvc_ckpt_recover.selftest import scene as scenes
from dvc_ckpt_recover.selftest.matrix import FAULTS, Bench, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = (scenes.DEAD, scenes.SUCCESS, scenes.LIVE_RUN)
PARTS = ("kill", "fault", "power")
_WHAT = {
    scenes.DEAD: "recovery of a dead run",
    scenes.SUCCESS: "recovery of a finished run that DVC lost",
    scenes.LIVE_RUN: "a run making checkpoints",
}
_RAM = "/dev/shm"  # noqa: S108 - a folder of our own is made in it


@dataclass(frozen=True)
class Plan:
    """How much is tried.

    Attributes:
        seed: Which points and moments are chosen where not all are tried.
        quick: Whether a minute has to do.
        parts: Which of ``PARTS``.
        points: Share of all points; None for the plan's own.
        cuts: How many power cuts.
    """

    seed: int = 1
    quick: bool = False
    parts: tuple[str, ...] = PARTS
    points: float | None = None
    cuts: int = 300

    def share(self, *, main: bool) -> float:
        """Return the share of the points that are tried; ``main`` rows get more."""
        if self.points is not None:
            return self.points
        if self.quick:
            return 0.02 if main else 0.01
        return 1.0 if main else 0.3


def run(plan: Plan, tell: Callable[[Tally], None]) -> list[Tally]:
    """Try all of the plan and return the table's rows; each is told as soon as it is there."""
    done = []
    with ExitStack() as stack:
        near = stack.enter_context(tempfile.TemporaryDirectory(prefix="ckpt-proof-", dir=_ram()))
        disk = stack.enter_context(tempfile.TemporaryDirectory(prefix="ckpt-proof-"))
        for row in _rows(plan, near, disk):
            tell(row)
            done.append(row)
    return done


def _ram() -> str | None:
    return _RAM if os.access(_RAM, os.W_OK) else None


def _rows(plan: Plan, near: str, disk: str) -> Iterator[Tally]:
    far = os.path.join(disk, "far")
    why = _why_no_strace()
    if "kill" in plan.parts:
        yield from (_timed(row) for row in _kills(plan, near, far, why))
    if "fault" in plan.parts:
        yield from (_timed(row) for row in _faults(plan, near, why))
    if "power" in plan.parts:
        why = why or powercut.why_not(disk)
        yield from (_timed(row) for row in _cuts(plan, near, disk, why))


def _why_no_strace() -> str:
    if os.name != "posix" or not shutil.which("strace"):
        return "strace is not there"
    return ""


Row = tuple[Tally, Callable[[Tally], None]]


def _timed(row: Row) -> Tally:
    tally, action = row
    start = time.monotonic()
    if not tally.skipped:
        action(tally)
    tally.seconds = time.monotonic() - start
    return tally


def _kills(plan: Plan, near: str, far: str, why: str) -> Iterator[Row]:
    apart = os.stat(near).st_dev != os.stat(os.path.dirname(far)).st_dev
    for kind in KINDS:
        for packed, is_far in ((False, False), (True, False), (False, True)):
            words = (
                f"refs {'packed' if packed else 'in files'}{', two file systems' if is_far else ''}"
            )
            tally = Tally(f"killed: {_WHAT[kind]}, {words}", skipped=why)
            if is_far and not apart:
                tally.skipped = tally.skipped or "there is one file system only"

            def action(
                tally: Tally,
                *,
                kind: str = kind,
                packed: bool = packed,
                is_far: bool = is_far,
            ) -> None:
                bench = Bench(near, kind, packed=packed, far=far if is_far else "")
                share = plan.share(main=not packed and not is_far)
                matrix.kill_all(bench, tally, share=share, seed=plan.seed)

            yield tally, action


def _faults(plan: Plan, near: str, why: str) -> Iterator[Row]:
    for kind in KINDS:
        for error in FAULTS:
            tally = Tally(f"{error}: {_WHAT[kind]}", skipped=why)

            def action(tally: Tally, kind: str = kind, error: str = error) -> None:
                bench = Bench(near, kind)
                matrix.fail_all(bench, error, tally, share=plan.share(main=False), seed=plan.seed)

            yield tally, action


def _cuts(plan: Plan, near: str, home: str, why: str) -> Iterator[Row]:
    rows = [(kind, disks) for disks in (1, 2) for kind in KINDS]
    for kind, disks in rows:
        words = ", two disks" if disks > 1 else ""
        tally = Tally(f"power cut: {_WHAT[kind]}{words}", skipped=why)

        def action(tally: Tally, kind: str = kind, disks: int = disks) -> None:
            with ExitStack() as stack:
                made = [
                    stack.enter_context(powercut.disk(os.path.join(home, f"disk{number}")))
                    for number in range(disks)
                ]
                bench = powercut.CutBench(made, near, kind)
                count = -(-plan.cuts // len(rows))
                powercut.cut_some(bench, tally, count, plan.seed)

        yield tally, action
