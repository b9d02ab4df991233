"""Let callers that ask at the same time share one snapshot.

Each caller says that its files are whole when it calls, so a snapshot that starts after the call
serves it, whoever started it: ranks of a distributed training cost one copy, not one each.
"""

from __future__ import annotations

import threading
from typing import Callable, Generic, TypeVar

T = TypeVar("T")


class _Turn(Generic[T]):
    def __init__(self) -> None:
        self.over = threading.Event()
        self.value: T | None = None
        self.error: BaseException | None = None

    def result(self) -> T:
        self.over.wait()
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


class Joined(Generic[T]):
    """Does one thing at a time, once for all who ask before it starts.

    Args:
        get_ready: May block; callers that come meanwhile still join.
        action: What is done.
    """

    def __init__(self, get_ready: Callable[[], None], action: Callable[[], T]) -> None:
        self._get_ready = get_ready
        self._action = action
        self._lock = threading.Lock()
        self._busy = threading.Lock()
        self._next: _Turn[T] | None = None

    def ask(self) -> T:
        """Return what the action that starts next returns, or raise what it raises."""
        with self._lock:
            turn, leads = self._next, self._next is None
            if turn is None:
                turn = self._next = _Turn()
        if leads:
            self._lead(turn)
        return turn.result()

    def _lead(self, turn: _Turn[T]) -> None:
        with self._busy:
            try:
                self._get_ready()
            except BaseException as exc:  # noqa: BLE001
                turn.error = exc
            with self._lock:
                self._next = None
            if turn.error is None:
                try:
                    turn.value = self._action()
                except BaseException as exc:  # noqa: BLE001
                    turn.error = exc
        turn.over.set()
