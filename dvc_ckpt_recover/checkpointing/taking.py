"""Take the checkpoints of one run: decide, copy aside, hand over to the storing thread.

Failure rule: a checkpoint that cannot be taken is skipped and counted; the run goes on.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, Callable

from dvc_ckpt_recover.checkpointing.aside import Asider
from dvc_ckpt_recover.checkpointing.budget import Budget
from dvc_ckpt_recover.checkpointing.commit import Committer
from dvc_ckpt_recover.checkpointing.joining import Joined
from dvc_ckpt_recover.checkpointing.retention import Retention
from dvc_ckpt_recover.checkpointing.storing import Storer, Ticket
from dvc_ckpt_recover.errors import CheckpointSkippedError, RecoverError
from dvc_ckpt_recover.settings import StageSettings

if TYPE_CHECKING:
    from dvc_ckpt_recover.checkpointing.staged import Staged
    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.dvc_api.stages import OutView, PipelineView, StageKey
    from dvc_ckpt_recover.runs import Places, RunRecord

Answer = dict[str, Any]
_NEVER = 1e9
_MAX_EXTRA = 8


class Taker:
    """Takes the checkpoints of one run.

    Args:
        places: Where its files lie.
        record: The run.
        cache: The project's DVC cache.
        finished: Stages that have finished; the caller adds to it.
        on_skip: Called with the stage's address and the error for each one that is skipped.
    """

    def __init__(
        self,
        places: Places,
        record: RunRecord,
        cache: Cache,
        finished: set[StageKey],
        on_skip: Callable[[str, Exception], None],
    ) -> None:
        self._asider = Asider(places, record, finished)
        self._retention = Retention(record, places, cache)
        self._committer = Committer(record, cache, self._retention)
        self._on_skip = on_skip
        self._view: PipelineView | None = None
        self._extra: set[str] = set()
        self._has_begun = False
        self._settings = StageSettings()
        self._budget = Budget(self._settings)
        self._joined: Joined[Ticket] = Joined(self._get_ready, self._take_aside)
        self._automatic_lock = threading.Lock()
        self._storer: Storer | None = None

    @property
    def proven(self) -> set[str]:
        """Return the DVC objects that were hashed while they were stored."""
        return self._committer.proven

    def stage_starts(self, view: PipelineView, wanted: StageSettings) -> None:
        """Take checkpoints of this stage from now on."""
        self._settings, self._budget = wanted, Budget(wanted)
        self._extra = set()
        self._has_begun = False
        self._view = view
        self._retention.pause(paused=False)

    def stage_ended(self) -> None:
        """Take no more until the next stage starts."""
        self._view = None
        self._retention.pause()

    def finish(self, *, failed: bool = False) -> None:
        """Return when all that was copied aside is stored; may be called again.

        Args:
            failed: Whether a stage failed, so that DVC stores nothing any more.
        """
        self.stage_ended()
        if self._storer:
            self._storer.finish()
            self._storer = None
        if failed:
            self._committer.proven -= self._retention.purge()

    # from the trainers' threads

    def request(self, request: dict[str, Any]) -> Answer:
        """Return the answer to a trainer's request."""
        if request.get("op") != "checkpoint":
            return {"ok": False, "reason": f"unknown request {request.get('op')!r}"}
        view, stage = self._view, request.get("stage")
        if view is None:
            return {"ok": False, "reason": "no stage is running"}
        if stage and stage != view.stage.address:
            running = view.stage.address
            return {"ok": False, "reason": f"stage {stage} is not running, {running} is"}
        self._extra |= _paths(request.get("extra"))
        if request.get("auto"):
            return self._automatic(view, int(request.get("calls") or 0))
        return self._answer(self._joined.ask, wait=bool(request.get("wait")))

    def _automatic(self, view: PipelineView, calls: int) -> Answer:
        """Make a checkpoint if the budget allows it, and say when to ask again."""
        if not _needed(view):
            return {"ok": False, "again_in": _NEVER, "again_after": calls}
        if not self._has_begun and not all(os.path.lexists(out.path) for out in _needed(view)):
            return {"ok": False}  # the first model is still to come
        answer: Answer = {"ok": False}
        with self._automatic_lock:
            budget = self._budget
            if budget.allows(calls):
                start = time.monotonic()
                answer = self._answer(self._joined.ask, wait=False)
                budget.used(calls, time.monotonic() - start)
        return {**answer, "again_in": budget.again_in(), "again_after": budget.again_after()}

    # from DVC's own thread

    def take(self, view: PipelineView, *, wait: bool = False) -> Answer:
        """Make a checkpoint of a stage that is not, or no more, running."""

        def take_now() -> Ticket:
            self._get_ready()
            return self._submit(view)

        return self._answer(take_now, wait=wait)

    # both

    def _answer(self, ask: Callable[[], Ticket], *, wait: bool) -> Answer:
        try:
            ticket = ask()
        except (RecoverError, OSError) as exc:
            return {"ok": False, "reason": str(exc), "told": True}
        reason = ticket.wait() if wait else None
        return {"ok": True} if reason is None else {"ok": False, "reason": reason, "told": True}

    def _get_ready(self) -> None:
        if self._storer is None:
            self._storer = Storer(self._committer, self._not_stored)
        self._storer.take_place()

    def _take_aside(self) -> Ticket:
        view = self._view
        if view is None:
            self._storer_now().free_place()
            msg = "the stage has ended"
            raise CheckpointSkippedError(msg)
        return self._submit(view)

    def _submit(self, view: PipelineView) -> Ticket:
        storer = self._storer_now()
        try:
            extra = tuple(sorted(self._extra))
            staged = self._asider.take(view, self._committer, extra, self._settings.keep)
        except BaseException as exc:
            storer.free_place()
            if isinstance(exc, (RecoverError, OSError)):
                self._on_skip(view.stage.address, exc)
            raise
        self._has_begun = True
        return storer.submit(staged)

    def _storer_now(self) -> Storer:
        assert self._storer is not None  # noqa: S101 - _get_ready went before
        return self._storer

    def _not_stored(self, staged: Staged, error: Exception) -> None:
        self._on_skip(staged.stage, error)


def _needed(view: PipelineView) -> list[OutView]:
    return [out for out in view.stage.outs if out.resumable]


def _paths(value: Any) -> set[str]:  # noqa: ANN401
    """Return the paths in a request's ``extra``; whatever else is there is left out."""
    given = value if isinstance(value, list) else []
    return {path for path in given[:_MAX_EXTRA] if isinstance(path, str) and os.path.isabs(path)}
