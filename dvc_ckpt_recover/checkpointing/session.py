"""One run in this process: its lease, its stage, its checkpoints in flight, how it ended.

Failure rule: a checkpoint that cannot be taken is skipped and counted; the run goes on.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover import failures, settings
from dvc_ckpt_recover.checkpointing import running_stage
from dvc_ckpt_recover.checkpointing.server import CheckpointServer
from dvc_ckpt_recover.checkpointing.taking import Taker
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.dvc_api.project import write_line
from dvc_ckpt_recover.dvc_api.stages import (
    PipelineView,
    StageKey,
    command_returncode,
    native_signal_file,
    view_pipeline,
)
from dvc_ckpt_recover.dvc_api.version import has_native_checkpoints
from dvc_ckpt_recover.git import RUNS, Refs, Store
from dvc_ckpt_recover.model import Cause
from dvc_ckpt_recover.runs import Lease, Places, find_record, load_record

if TYPE_CHECKING:
    from dvc_ckpt_recover.runs import RunRecord

_sessions: dict[str, RunSession] = {}


def open_session(temp_dir: str) -> RunSession | None:
    """Return the session of the run in ``temp_dir``, made from its record; None without one."""
    temp_dir = os.path.abspath(temp_dir)
    if temp_dir not in _sessions:
        places = Places.of_temp_dir(temp_dir)
        record = find_record(places, temp_dir) if places else None
        if places is None or record is None:
            return None
        _sessions[temp_dir] = RunSession(places, record)
    return _sessions[temp_dir]


def start_session(places: Places, record: RunRecord) -> RunSession:
    """Return the session of a run that begins; DVC may try a set-up again."""
    temp_dir = os.path.abspath(record.temp_dir)
    if temp_dir not in _sessions:
        _sessions[temp_dir] = RunSession(places, record)
    return _sessions[temp_dir]


def session_for(path: str) -> RunSession | None:
    """Return the session that ``path`` belongs to, if this process runs it.

    The innermost, since temp dirs lie in the workspace, where a run may be at work as well.
    """
    path = os.path.abspath(path)
    found = [top for top in _sessions if path == top or path.startswith(top + os.sep)]
    return _sessions[max(found, key=len)] if found else None


class RunSession:
    """The part of one run that this process does.

    Attributes:
        record: The run.
        lease: Its lease, held by this process.
        cause: Why it did not finish, as far as this process knows.
        proven: DVC objects that were hashed while they were stored.
    """

    def __init__(self, places: Places, record: RunRecord) -> None:
        self.places = places
        self.record = record
        self.lease = Lease(places, record.run_id)
        self.lease.hold()
        self.cause: Cause | None = None
        self.unsaved: str | None = None
        self.stage_error: BaseException | None = None
        self._view: PipelineView | None = None
        self._finished: set[StageKey] = set()
        self._taker: Taker | None = None
        self._server: CheckpointServer | None = None
        self._native_file: str | None = None
        self._skipped: list[str] = list(record.skipped)
        self._writing = threading.Lock()

    @property
    def proven(self) -> set[str]:
        """Return the DVC objects that this process hashed while it stored them."""
        return self._taker.proven if self._taker else set()

    @property
    def view(self) -> PipelineView | None:
        """Return what is known of the stage that runs now, or None between stages."""
        return self._view

    @property
    def stage(self) -> str | None:
        """Return the address of the stage whose command failed, if one did."""
        return self.cause.stage if self.cause else None

    @property
    def skipped(self) -> tuple[str, ...]:
        """Return why checkpoints were skipped, oldest first."""
        return tuple(self._skipped)

    # a stage from start to end, called from DVC's own thread

    def stage_starts(self, stage: Any) -> None:  # noqa: ANN401
        """Look at the stage whose command is about to run, and listen for its trainer."""
        self._view = view_pipeline(stage, running=True)
        self._native_file = native_signal_file(stage)
        if self._view is None:
            return
        running_stage.remember(self.places, self.record.run_id, self._view, self._finished)
        wanted, wrong = settings.StageSettings.read(self._view.stage.meta)
        for line in wrong:
            write_line(f"dvc_ckpt_recover: stage {self._view.stage.address}: {line}")
        if has_native_checkpoints():
            return
        self._taker_for(stage).stage_starts(self._view, wanted)
        if self._server is None:
            self._server = CheckpointServer(self._taker_for(stage).request)

    def stage_command_ended(self, stage: Any, error: BaseException | None) -> None:  # noqa: ANN401
        """Note how the command ended; after an end in good order its outputs are whole."""
        if self._taker:
            self._taker.stage_ended()
        address = str(stage.addressing)
        returncode = command_returncode(error)
        self.stage_error = error
        if error is None:
            self.unsaved = address
        elif returncode is not None:
            self.cause = Cause.of_returncode(address, returncode)
        else:
            self.cause = Cause.of_error(error, address)

    def stage_interrupted(
        self,
        stage: Any,  # noqa: ANN401
        error: BaseException,
        number: int,
        *,
        whole: bool,
    ) -> None:
        """Note that a command ended because dvc was told to end.

        Args:
            stage: DVC's stage.
            error: What DVC gets to see.
            number: The signal that dvc got.
            whole: Whether the command ended in good order. What it left is then kept as a
                checkpoint, never as a finished stage.
        """
        self.stage_command_ended(stage, None if whole and self._taker else error)
        self.stage_error = error
        self.cause = Cause.of_returncode(str(stage.addressing), -number)

    def stage_is_done(self, stage: Any, *, changed: bool) -> None:  # noqa: ANN401
        """Note that DVC saved a stage, or found it unchanged; a saved one is a checkpoint."""
        view = view_pipeline(stage, running=False)
        self._view, self.unsaved = None, None
        if view is None:
            return
        self._finished.add(view.stage.key)
        running_stage.forget(self.places, self.record.run_id)
        if changed:
            self._taker_for(stage).take(view)

    def environment(self) -> dict[str, str]:
        """Return what the stage's command needs in its environment."""
        env = {settings.ENV_PID: str(os.getpid()), settings.ENV_RUN: self.record.run_id}
        file = self._native_file
        if self._server:
            env[settings.ENV_ADDRESS] = self._server.address
            file = self._server.file
        if file:
            env[settings.ENV_FILE] = file
        return env

    def finish(self) -> None:
        """Store what is in flight and take no more; may be called again."""
        if self._server:
            self._server.stop()
            self._server = None
        if self.unsaved and self._view and self.unsaved == self._view.stage.address:
            self._keep_unsaved(self._view)
        if self._taker:
            self._taker.finish(failed=self.cause is not None)

    def end(self, error: BaseException | None) -> None:
        """Note how the reproduction ended, in the record too, for the run's other processes.

        Args:
            error: What it raised; None when it went through (``--ignore-errors`` included).
        """
        if error is None:
            self.cause = None
        elif self.cause is None:
            self.cause = Cause.of_error(error)
        self.finish()
        with self._writing:
            self.record = self.record.changed(
                reproduced=error is None,
                cause=str(self.cause or ""),
                unsaved=self.unsaved,
                skipped=self.skipped,
            )
            self.record.save(self.places)

    def read_again(self) -> None:
        """Read the record, which another process of the run may have changed."""
        with contextlib.suppress(FileNotFoundError):  # somebody removed the folder
            self.record = load_record(self.places, self.record.run_id)

    def abandon(self) -> None:
        """Leave nothing of a run whose set-up failed, so that it has never started."""
        Refs(Store(self.record.main_root)).delete(RUNS + self.record.run_id)
        self.record.remove(self.places)
        self.lease.remove()
        self.close()

    def close(self) -> None:
        """Forget the run in this process; its lease must be let go by the caller."""
        _sessions.pop(os.path.abspath(self.record.temp_dir), None)

    def _keep_unsaved(self, view: PipelineView) -> None:
        """Keep what a command left that ended in good order but that DVC could not save."""
        if self._taker and self._taker.take(view, wait=True)["ok"]:
            self.unsaved = None

    def _taker_for(self, stage: Any) -> Taker:  # noqa: ANN401
        if self._taker is None:
            cache = Cache(stage.repo)
            self._taker = Taker(self.places, self.record, cache, self._finished, self._skip)
        return self._taker

    def _skip(self, stage: str, error: Exception) -> None:
        """Tell and count that a checkpoint was skipped, in the record too, for ``status``."""
        failures.note(f"a checkpoint of stage {stage} was skipped", error)
        with self._writing:
            self._skipped.append(f"stage {stage}: {error}")
            try:
                self.record = self.record.changed(skipped=self.skipped)
                self.record.save(self.places)
            except OSError as exc:  # the same full disk, most likely
                failures.note("counting it in the record", exc)
