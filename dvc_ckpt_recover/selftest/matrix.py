"""Hit a run or a recovery at every system call, then judge, repeat, and repeat again."""

from __future__ import annotations

import gc
import os
import random
import re
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dvc_ckpt_recover.selftest import children
from dvc_ckpt_recover.selftest import scene as scenes
from dvc_ckpt_recover.selftest.oracle import EARLY, LOST, TORN, Oracle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dvc_ckpt_recover.selftest.children import Outcome
    from dvc_ckpt_recover.selftest.scene import Scene

_NEW = "open openat link rename mkdir"
_BYTES = "write pwrite64 fsync ftruncate fallocate copy_file_range"
_GONE = "unlink unlinkat rmdir"
_MODES = "chmod fchmod fchmodat utimensat"
CHANGING = frozenset(
    f"""{_NEW} {_BYTES} {_GONE} {_MODES} creat writev sendfile fdatasync syncfs renameat renameat2
    linkat symlink symlinkat mkdirat close flock ioctl""".split()
)
"""Calls that change something, or stand between two that do."""
FAULTS = {
    "ENOSPC": f"{_NEW} {_BYTES}",
    "EDQUOT": f"{_NEW} {_BYTES}",
    "EIO": f"{_NEW} {_BYTES} {_GONE} read pread64 close getdents64",
    "EROFS": f"{_NEW} {_GONE} {_MODES}",
}
"""Error -> the calls that fail with it."""
_TRIES = 3
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\(")


@dataclass
class Tally:
    """What a row of the table counts.

    Attributes:
        label: The row's name.
        points: Points that were hit.
        lost: Acknowledged checkpoints that were lost.
        torn: Refs or objects that were offered and are not whole.
        early: Temp dirs that were removed before what they held was published.
        failed: Repeats that failed, or did not give the one result.
        unclear: Errors that were told as a crash.
        litter: Files that killed writes left after all.
        notes: What went wrong, a line each.
        skipped: Why nothing was tried, or empty.
    """

    label: str
    points: int = 0
    lost: int = 0
    torn: int = 0
    early: int = 0
    failed: int = 0
    unclear: int = 0
    litter: int = 0
    notes: list[str] = field(default_factory=list)
    skipped: str = ""
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Return whether nothing went wrong."""
        return not (self.lost or self.torn or self.early or self.failed or self.unclear)

    def count(self, where: str, wrong: Iterable[tuple[str, str]]) -> None:
        """Count what an oracle found at ``where``."""
        for kind, what in wrong:
            self.lost += kind == LOST
            self.torn += kind == TORN
            self.early += kind == EARLY
            self.failed += kind not in (LOST, TORN, EARLY)
            self.note(f"{where}: {kind}: {what}")

    def note(self, line: str) -> None:
        """Keep a line."""
        self.notes.append(line)


class Bench:
    """One scene, kept, so that each point starts alike.

    Args:
        top: Folder of the bench's own; scenes lie at one path, since records name it.
        kind: See ``scene.build``, and so for the rest.
        guards: Guards to go without.
    """

    def __init__(  # noqa: PLR0913 - each is one trait
        self,
        top: str,
        kind: str,
        *,
        far: str = "",
        packed: bool = False,
        guards: Iterable[str] = (),
        aside: str = "",
    ) -> None:
        self.kept = os.path.join(aside or top, "kept")
        self.log = os.path.join(aside or top, "strace.log")
        self.guards = tuple(guards)
        near = os.path.join(top, "scene")
        for folder in (near, far, self.kept):
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(self.kept)
        self.scene: Scene = scenes.build(near, kind, far=far, packed=packed)
        scenes.keep(self.scene, self.kept)
        self.action = "train" if kind == scenes.LIVE_RUN else "recover"
        self.oracle = Oracle(self.scene)
        if kind == scenes.LIVE_RUN:  # nothing is imported by the children, where calls fail
            with tempfile.TemporaryDirectory() as other:
                scenes.build(os.path.join(other, "scene"), scenes.DEAD, steps=1, staged=0)
        gc.collect()
        gc.freeze()
        children.run(self.scene, self.action)
        children.run(self.scene, "recover")
        self.result = self.oracle.fingerprint()
        wrong = self.oracle.judge(final=True)
        if wrong:
            msg = f"a recovery that nothing disturbs goes wrong: {wrong}"
            raise RuntimeError(msg)

    def calls(self) -> Counter[str]:
        """Return how often each call is made by an action that nothing disturbs."""
        self.reset()
        outcome = children.run_hit(self.scene, self.action, self.log, "all")
        found = (_CALL.match(line) for line in outcome.calls)
        return Counter(match.group(1) for match in found if match)

    def reset(self) -> None:
        """Put the scene back as it was."""
        scenes.copy(self.scene, self.kept)

    def hit(self, call: str, hit: str) -> Outcome:
        """Do the action from the start and hit one call of it."""
        for _ in range(_TRIES - 1):
            self.reset()
            with suppress(children.TraceError):
                return children.run_hit(self.scene, self.action, self.log, call, hit, self.guards)
        self.reset()
        return children.run_hit(self.scene, self.action, self.log, call, hit, self.guards)

    def check(self, where: str, outcome: Outcome, tally: Tally) -> None:
        """Judge what a hit left; recover; judge; recover again; nothing may change."""
        acknowledged = outcome.steps("staged", "ready")
        if outcome.crash:
            tally.unclear += 1
            tally.note(f"{where}: crash: {outcome.crash.strip().splitlines()[-1]}")
        tally.count(where, self.oracle.judge(acknowledged))
        repeat = children.run(self.scene, "recover", self.guards)
        if repeat.crash or repeat.errors or repeat.status:
            tally.failed += 1
            tally.note(f"{where}: the repeat: {repeat.errors or repeat.crash or repeat.status}")
        tally.count(f"{where}, repeated", self.oracle.judge(acknowledged, final=True))
        if self.scene.kind != scenes.LIVE_RUN and self.oracle.fingerprint() != self.result:
            tally.failed += 1
            tally.note(f"{where}: the repeat gives another result: {self._difference()}")
        before = self.oracle.fingerprint(exact=True)
        children.run(self.scene, "recover", self.guards)
        if self.oracle.fingerprint(exact=True) != before:
            tally.failed += 1
            tally.note(f"{where}: a third recovery changed something")
        tally.litter += len(self.oracle.litter())

    def _difference(self) -> list[str]:
        now = self.oracle.fingerprint()
        return sorted(key for key in {*now, *self.result} if now.get(key) != self.result.get(key))


def kill_points(
    bench: Bench, share: float, seed: int, calls: Iterable[str] = ()
) -> Iterator[tuple[str, int]]:
    """Yield (call, number) for each point, or for a seeded share of them."""
    chance = random.Random(seed)  # noqa: S311
    for call, count in sorted(bench.calls().items()):
        if call in (frozenset(calls) or CHANGING):
            for number in range(1, count + 1):
                if chance.random() < share:
                    yield call, number


def kill_all(bench: Bench, tally: Tally, *, share: float = 1.0, seed: int = 0) -> None:
    """Kill at each system call that changes something, one after the other."""
    for call, number in list(kill_points(bench, share, seed)):
        outcome = bench.hit(call, f"signal=SIGKILL:when={number}")
        if outcome.was_killed:
            tally.points += 1
            bench.check(f"{tally.label}: {call} {number}", outcome, tally)


def fail_all(bench: Bench, error: str, tally: Tally, *, share: float = 1.0, seed: int = 0) -> None:
    """Have each call fail with ``error``: once, and from there on."""
    for call, number in list(kill_points(bench, share, seed, FAULTS[error].split())):
        lasting = call in ("write", "pwrite64", "fsync") and number % 2 == 0
        when = f"{number}+" if lasting else str(number)
        outcome = bench.hit(call, f"error={error}:when={when}")
        if outcome.was_hit:
            tally.points += 1
            bench.check(f"{tally.label}: {call} {when}", outcome, tally)
