"""Store what was copied aside, in a thread of its own, while the trainer goes on.

Failure rule: what cannot be stored is told to its ticket and to ``on_failure``; the next is tried.
The newest such one stays copied aside until a later one is stored, so that the run's end can try
it again: the trainer was told that it is safe.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Callable

from dvc_ckpt_recover import settings
from dvc_ckpt_recover.checkpointing.staged import StagedGoneError

if TYPE_CHECKING:
    from dvc_ckpt_recover.checkpointing.commit import Committer
    from dvc_ckpt_recover.checkpointing.staged import Staged


class Ticket:
    """One checkpoint on its way.

    Attributes:
        error: Why it could not be stored, once it is known.
    """

    def __init__(self, staged: Staged) -> None:
        self.staged = staged
        self.error: str | None = None
        self._over = threading.Event()

    def wait(self) -> str | None:
        """Wait until it is ready, or failed: then return why."""
        self._over.wait()
        return self.error

    def end(self, error: str | None) -> None:
        """Say how it ended."""
        self.error = error
        self._over.set()


class Storer:
    """The storing thread of one run.

    Args:
        committer: What stores them.
        on_failure: Called with the checkpoint and the error, in that thread.
    """

    def __init__(
        self, committer: Committer, on_failure: Callable[[Staged, Exception], None]
    ) -> None:
        self._committer = committer
        self._on_failure = on_failure
        self._left: Staged | None = None
        self._free = threading.Semaphore(settings.IN_FLIGHT)
        self._todo: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._store_all, name="ckpt-store", daemon=True)
        self._thread.start()

    def take_place(self) -> None:
        """Wait until one more may be on its way; ``submit`` or ``free_place`` follows."""
        self._free.acquire()

    def free_place(self) -> None:
        """Give a place back that was not used."""
        self._free.release()

    def submit(self, staged: Staged) -> Ticket:
        """Have ``staged`` stored; a place must have been taken."""
        ticket = Ticket(staged)
        self._todo.put(ticket)
        return ticket

    def finish(self) -> None:
        """Return when all that was submitted is stored; nothing may be submitted afterwards."""
        self._todo.put(None)
        self._thread.join()

    def _store_all(self) -> None:
        while True:
            ticket = self._todo.get()
            if ticket is None:
                return
            error = self._store(ticket.staged)
            self._free.release()
            ticket.end(error)

    def _store(self, staged: Staged) -> str | None:
        try:
            self._committer.commit(staged)
        except Exception as exc:  # noqa: BLE001
            self._committer.forget()
            self._leave(None if isinstance(exc, StagedGoneError) else staged)
            if self._left is not staged:
                staged.discard()
            self._on_failure(staged, exc)
            return str(exc)
        self._leave(None)
        return None

    def _leave(self, staged: Staged | None) -> None:
        """Have ``staged`` stay copied aside instead of the one that did so far."""
        if self._left is not None:
            self._left.discard()
        self._left = staged
