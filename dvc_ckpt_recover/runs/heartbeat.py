"""A sign of life for other hosts, which cannot see this one's processes: a file's time goes on.

Failure rule: a file system that does not take it costs nothing but the sign.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

_PERIOD = 30.0
SILENT = 120.0
"""Seconds after which a run of another host may be taken for dead, when the user says so."""


class Heartbeat:
    """Touches the file ``path`` every 30 s, in a thread of its own, until it is stopped."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="ckpt-heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._stop.wait(_PERIOD):
            with contextlib.suppress(OSError):
                os.utime(self._path)

    def stop(self) -> None:
        """Give no more signs."""
        self._stop.set()
        self._thread.join()


def silence(path: str) -> float:
    """Return for how many seconds the file at ``path`` got no sign; for ever when it is gone."""
    try:
        return max(0.0, time.time() - os.stat(path).st_mtime)
    except OSError:
        return float("inf")
