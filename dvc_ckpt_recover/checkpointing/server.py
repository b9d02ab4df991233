"""Take requests from trainers: bounded JSON over a private address, a thread for each caller.

Failure rule: a bad request gets an answer that says so; no request ends the server or the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Callable

from dvc_ckpt_recover import failures, settings
from dvc_ckpt_recover.checkpointing.signalfile import SignalFile
from dvc_ckpt_recover.durable.address import PrivateAddress

Answer = dict[str, Any]


class CheckpointServer:
    """Answers each request with what ``take`` returns for it.

    Args:
        take: Called with the request, in the caller's own thread.
    """

    def __init__(self, take: Callable[[dict[str, Any]], Answer]) -> None:
        self._take = take
        self._address = PrivateAddress()
        self._listener = Listener(self._address.text, backlog=64)
        folder = self._address.folder
        self._file = SignalFile(os.path.join(folder, "checkpoint"), take) if folder else None
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, name="ckpt-server", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Return what trainers connect to."""
        return self._address.text

    @property
    def file(self) -> str | None:
        """Return the file that asks for a checkpoint by being made, or None on Windows."""
        return self._file.path if self._file else None

    def _serve(self) -> None:
        while not self._stopping:
            try:
                caller = self._listener.accept()
            except (OSError, EOFError):  # a caller that went away, or the end
                continue
            threading.Thread(target=self._answer, args=(caller,), daemon=True).start()

    def _answer(self, caller: Connection) -> None:
        with caller, contextlib.suppress(OSError, EOFError):  # the caller has gone
            data = caller.recv_bytes(settings.MAX_REQUEST)
            caller.send_bytes(json.dumps(self._result(data)).encode("utf-8"))

    def _result(self, data: bytes) -> Answer:
        try:
            request = json.loads(data.decode("utf-8"))
            if not isinstance(request, dict):
                return {"ok": False, "reason": "a request must be a JSON object"}
            return self._take(request)
        except ValueError as exc:
            return {"ok": False, "reason": f"a request must be JSON ({exc})"}
        except Exception as exc:  # noqa: BLE001
            failures.note("checkpoint", exc)
            return {"ok": False, "reason": str(exc)}

    def stop(self) -> None:
        """Take no more requests and remove the address."""
        self._stopping = True
        if self._file:
            self._file.stop()
        with contextlib.suppress(OSError):
            Client(self._address.text).close()  # wakes the thread that waits in accept
        self._thread.join(timeout=5)
        self._listener.close()
        self._address.remove()
