"""How often an automatic checkpoint may be made: a share of the stage's time, each N-th call.

An explicit call is always honoured and counts for nothing here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from dvc_ckpt_recover.settings import StageSettings

_NEVER = 1e9


class Budget:
    """The budget of one stage, from the start of its command.

    Args:
        settings: What the stage says.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, settings: StageSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._share = settings.budget
        self._every = settings.every
        self._clock = clock
        self._start = clock()
        self._spent = 0.0
        self._last = 0.0
        self._next_call = settings.every

    def allows(self, calls: int) -> bool:
        """Return whether the ``calls``-th automatic call may make a checkpoint.

        The first may if any may, for its cost is not known yet.
        """
        return calls >= self._next_call and self.again_in() <= 0

    def again_in(self) -> float:
        """Return in how many seconds the next one is affordable, at the cost of the last."""
        if self._share <= 0:
            return _NEVER
        due = (self._spent + self._last) / self._share
        return max(0.0, self._start + due - self._clock())

    def again_after(self) -> int:
        """Return the number of the next call that may make one."""
        return self._next_call

    def used(self, calls: int, seconds: float) -> None:
        """Note that the ``calls``-th call made one and that its trainer waited ``seconds``."""
        self._spent += seconds
        self._last = seconds
        self._next_call = calls + self._every
