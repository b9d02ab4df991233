"""Cut the power of a real ext4 at chosen system calls: what was not synced is gone.

A child is killed at the call, an unrelated file is synced, so that the file system's journal holds
all names that were made or removed, and the disk goes down without another write
(``FS_IOC_SHUTDOWN``). Without that sync a removal would be lost too, and much would pass by luck.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dvc_ckpt_recover.selftest import children, matrix
from dvc_ckpt_recover.selftest import scene as scenes
from dvc_ckpt_recover.selftest.matrix import Bench

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dvc_ckpt_recover.selftest.matrix import Tally

_SHUTDOWN = 0x8004587D
_NO_FLUSH = struct.pack("I", 2)
MIB = 1 << 20


class Disk:
    """An ext4 file system in a file.

    Args:
        folder: Where it is mounted, at ``mnt``, and where its file is.
        size: Its size in bytes.
    """

    def __init__(self, folder: str, size: int = 48 * MIB) -> None:
        os.makedirs(folder, exist_ok=True)
        self.image = os.path.join(folder, "image")
        self.path = os.path.join(folder, "mnt")
        os.makedirs(self.path, exist_ok=True)
        with open(self.image, "wb") as file:
            file.truncate(size)
        _do("mkfs.ext4", "-q", "-F", "-O", "^metadata_csum_seed", self.image)
        self.mount()

    def mount(self) -> None:
        """Put it in place; its journal is replayed."""
        _do("mount", "-o", "loop", self.image, self.path)

    def unmount(self) -> None:
        """Take it away."""
        _do("umount", self.path)

    def cut(self, *, others_sync: bool = True) -> None:
        """Cut its power, and give it back. ``others_sync`` as for ``go_down``."""
        self.go_down(others_sync=others_sync)
        self.unmount()
        self.mount()

    def go_down(self, *, others_sync: bool = True) -> None:
        """Cut its power; it answers each call with an error until it is mounted again.

        Args:
            others_sync: Whether somebody else synced a file of theirs just before.
        """
        import fcntl

        if others_sync:
            fd = os.open(os.path.join(self.path, "unrelated"), os.O_WRONLY | os.O_CREAT, 0o600)
            os.write(fd, b"x")
            os.fsync(fd)
            os.close(fd)
        fd = os.open(self.path, os.O_RDONLY)
        fcntl.ioctl(fd, _SHUTDOWN, _NO_FLUSH)
        os.close(fd)

    def sync(self) -> None:
        """Bring all of it to the disk."""
        _do("sync", "-f", self.path)


def _do(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        msg = f"{' '.join(words)}: {done.stderr.strip()}"
        raise OSError(msg)


@contextmanager
def disk(folder: str, size: int = 48 * MIB) -> Iterator[Disk]:
    """Give a disk in ``folder`` that goes away at the end. Raises OSError."""
    made = Disk(folder, size)
    try:
        yield made
    finally:
        with suppress(OSError):
            made.unmount()
        shutil.rmtree(folder, ignore_errors=True)


def why_not(folder: str) -> str:
    """Return why the power cannot be cut here, or nothing."""
    if os.name != "posix" or os.geteuid() != 0:
        return "only root can mount a disk"
    if not shutil.which("mkfs.ext4"):
        return "mkfs.ext4 is not there"
    try:
        with disk(os.path.join(folder, "try"), 8 * MIB) as made:
            made.cut()
    except OSError as exc:
        return f"a disk cannot be mounted and shut down here ({exc})"
    return ""


class CutBench(Bench):
    """A bench on a disk whose power can be cut."""

    def __init__(
        self,
        disks: list[Disk],
        top: str,
        kind: str,
        *,
        packed: bool = False,
        guards: Iterable[str] = (),
    ) -> None:
        self._disks = disks
        far = os.path.join(disks[1].path, "far") if len(disks) > 1 else ""
        where = os.path.join(disks[0].path, "bench")
        os.makedirs(where, exist_ok=True)
        super().__init__(where, kind, far=far, packed=packed, guards=guards, aside=top)

    def reset(self) -> None:
        """Put the scene back, on the disk."""
        super().reset()
        for one in self._disks:
            one.sync()

    def cut(self, call: str, number: int, tally: Tally, *, others_sync: bool = True) -> None:
        """Cut the power when the action makes a call for the ``number``-th time; then judge."""
        outcome = self.hit(call, f"signal=SIGKILL:when={number}")
        for one in self._disks:
            one.cut(others_sync=others_sync)
        tally.points += 1
        where = f"{tally.label}: cut at {call} {number}"
        acknowledged = outcome.steps("ready")
        self.judge_cut(where, acknowledged, tally)

    def judge_cut(self, where: str, acknowledged: set[int], tally: Tally) -> None:
        """Judge what a cut left, recover, judge, and recover again."""
        given = self.oracle.given
        tally.count(where, self.oracle.judge(acknowledged, fsck=False))
        repeat = children.run(self.scene, "recover", self.guards)
        if repeat.crash or repeat.errors or repeat.status:
            tally.failed += 1
            tally.note(f"{where}: the repeat: {repeat.errors or repeat.crash or repeat.status}")
        tally.count(f"{where}, recovered", self.oracle.judge(acknowledged, final=True))
        before = self.oracle.fingerprint(exact=True)
        children.run(self.scene, "recover", self.guards)
        if self.oracle.fingerprint(exact=True) != before:
            tally.failed += 1
            tally.note(f"{where}: a third recovery changed something")
        self.oracle.given = given


def cut_some(bench: CutBench, tally: Tally, count: int, seed: int) -> None:
    """Cut the power at ``count`` seeded points of the bench's action."""
    chance = random.Random(f"{seed} {tally.label}")  # noqa: S311
    points = list(matrix.kill_points(bench, 1.0, seed))
    for _ in range(count):
        call, number = chance.choice(points)
        bench.cut(call, number, tally, others_sync=chance.random() < 0.8)  # noqa: PLR2004


__all__ = ["CutBench", "Disk", "cut_some", "disk", "scenes", "why_not"]
