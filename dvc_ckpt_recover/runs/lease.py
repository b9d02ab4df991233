"""The lease: a run is alive exactly while a process holds it.

dvc shares it, and the stage's process inherits it, so it outlives a killed dvc for as long as the
trainer goes on; the kernel frees it whatever kills them.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from dvc_ckpt_recover.durable import remove_file
from dvc_ckpt_recover.durable.locks import KernelLock
from dvc_ckpt_recover.runs.heartbeat import Heartbeat, silence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.runs.places import Places


_PROBES = 4
_PROBE_PAUSE = 0.02


def _probes() -> Iterator[None]:
    """Yield a few times, with pauses of random length in between."""
    yield
    for _ in range(_PROBES - 1):
        time.sleep(_PROBE_PAUSE * random.random())  # noqa: S311
        yield


class Lease:
    """The lease of one run."""

    def __init__(self, places: Places, run_id: str) -> None:
        self._path = places.lease(run_id)
        self._lock = KernelLock(self._path)
        self._heartbeat: Heartbeat | None = None

    def hold(self) -> bool:
        """Say that the run is alive; False when a recovery has it alone."""
        for _ in _probes():
            if self._lock.share():
                if self._heartbeat is None:
                    self._heartbeat = Heartbeat(self._path)
                return True
        return False

    def claim(self) -> bool:
        """Take a dead run for recovery; False while anybody holds its lease.

        The folder must be there. Raises OSError when it is not, or cannot be written.
        """
        # somebody who only looks lets go at once
        return any(self._lock.take() for _ in _probes())

    def is_held(self) -> bool:
        """Return whether the run is alive (or being recovered). Writes nothing."""
        probe = KernelLock(self._path, create=False)
        for _ in _probes():  # two that look at once must not take each other for the run
            try:
                taken = probe.take()
            except FileNotFoundError:
                return False
            if taken:
                probe.release()
                return False
        return True

    def silence(self) -> float:
        """Return for how many seconds its holder, on whatever host, gave no sign of life."""
        return silence(self._path)

    def release(self) -> None:
        """Let go of it."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        self._lock.release()

    def remove(self) -> None:
        """Let go and remove the file, when nothing is left to be alive."""
        remove_file(self._path)
        self.release()

    def inheritable(self) -> int | None:
        """Return the descriptor that the stage's process must inherit."""
        return self._lock.inheritable()
