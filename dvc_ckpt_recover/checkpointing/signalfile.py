"""Checkpoints for trainers that can only make a file: shell scripts, other languages, containers.

The trainer makes the file and waits until it is gone. Then the state is safe, unless a file of
that name with ``.failed`` behind it has appeared, which holds the reason.

Failure rule: whatever goes wrong is a ``.failed`` file, and the file goes away all the same.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, Callable

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.durable import remove_file

_POLL = 0.05


class SignalFile:
    """Looks for the file ``path`` 20 times a second, as there is no portable way to be told.

    Args:
        path: In a private folder.
        take: Called with a request when the file is there; returns the answer.
    """

    def __init__(self, path: str, take: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.path = path
        self._take = take
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ckpt-file", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopping.wait(_POLL):
            if os.path.lexists(self.path):
                self._contained()

    def _contained(self) -> None:
        try:
            self._serve()
        except Exception as exc:  # noqa: BLE001
            failures.note("a checkpoint asked for by a file", exc)

    def _serve(self) -> None:
        remove_file(f"{self.path}.failed")
        try:
            answer = self._take({"op": "checkpoint", "wait": True})
        except Exception as exc:  # noqa: BLE001
            answer = {"ok": False, "reason": str(exc)}
        if not answer.get("ok"):
            self._write_reason(str(answer.get("reason")))
        remove_file(self.path)

    def _write_reason(self, reason: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # the folder went with the run
            with open(f"{self.path}.new", "w", encoding="utf-8") as file:
                file.write(reason + "\n")
            os.replace(f"{self.path}.new", f"{self.path}.failed")

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        self._thread.join(timeout=5)
