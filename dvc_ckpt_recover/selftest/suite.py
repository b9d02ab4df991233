"""The whole proof in the order of its table: kills, failing calls, power cuts."""

from __future__ import annotations

import itertools
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

    def share(self, part: str, *, main: bool) -> float:
        """Return the share of a part's points that are tried; ``main`` rows get more."""
        if self.points is not None:
            return self.points
        if self.quick:
            return {"kill": 0.02 if main else 0.01, "fault": 0.01 if main else 0.0}[part]
        return {"kill": 1.0 if main else 0.3, "fault": 0.3 if main else 0.1}[part]


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
        yield from (_timed(row) for row in _faults(plan, near, far, why))
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


@dataclass(frozen=True)
class _Variant:
    """How a scene's refs are kept, and whether it lies on two file systems."""

    packed: bool
    far: str

    @property
    def is_main(self) -> bool:
        return not self.packed and not self.far

    @property
    def label(self) -> str:
        words = f"refs {'packed' if self.packed else 'in files'}"
        return f"{words}, two file systems" if self.far else words

    def bench(self, near: str, kind: str) -> Bench:
        return Bench(near, kind, packed=self.packed, far=self.far)

    def why_not(self, near: str) -> str:
        apart = self.far and os.stat(near).st_dev != os.stat(os.path.dirname(self.far)).st_dev
        return "there is one file system only" if self.far and not apart else ""


def _variants(far: str) -> tuple[_Variant, ...]:
    return _Variant(False, ""), _Variant(True, ""), _Variant(False, far)  # noqa: FBT003


def _kills(plan: Plan, near: str, far: str, why: str) -> Iterator[Row]:
    for kind, variant in itertools.product(KINDS, _variants(far)):
        label = f"killed: {_WHAT[kind]}, {variant.label}"
        share = plan.share("kill", main=variant.is_main)

        def action(
            tally: Tally, kind: str = kind, variant: _Variant = variant, share: float = share
        ) -> None:
            matrix.kill_all(variant.bench(near, kind), tally, share=share, seed=plan.seed)

        yield Tally(label, skipped=why or variant.why_not(near)), action


def _faults(plan: Plan, near: str, far: str, why: str) -> Iterator[Row]:
    for kind, variant, error in itertools.product(KINDS, _variants(far), FAULTS):
        label = f"{error}: {_WHAT[kind]}, {variant.label}"
        share = plan.share("fault", main=variant.is_main)
        if not share:
            continue

        def action(
            tally: Tally,
            kind: str = kind,
            variant: _Variant = variant,
            error: str = error,
            share: float = share,
        ) -> None:
            bench = variant.bench(near, kind)
            matrix.fail_all(bench, error, tally, share=share, seed=plan.seed)

        yield Tally(label, skipped=why or variant.why_not(near)), action


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
