"""One run in this process: its lease, its stage, its checkpoints in flight, how it ended.

Failure rule: a checkpoint that cannot be taken is skipped and counted; the run goes on.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover import failures, settings
from dvc_ckpt_recover.checkpointing.commit import Committer
from dvc_ckpt_recover.checkpointing.server import CheckpointServer
from dvc_ckpt_recover.checkpointing.snapshot import Snapshot
from dvc_ckpt_recover.checkpointing.staged import Staged, discard, new_folder
from dvc_ckpt_recover.dvc_api import lockfile
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.dvc_api.stages import (
    PipelineView,
    StageKey,
    command_returncode,
    view_pipeline,
)
from dvc_ckpt_recover.dvc_api.version import has_native_checkpoints
from dvc_ckpt_recover.errors import RecoverError
from dvc_ckpt_recover.model import Cause
from dvc_ckpt_recover.runs import Lease, Places, find_record, load_record

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def session_for(path: str) -> RunSession | None:
    """Return the session whose temp dir ``path`` lies in, if this process runs it."""
    path = os.path.abspath(path)
    for temp_dir, session in _sessions.items():
        if path == temp_dir or path.startswith(temp_dir + os.sep):
            return session
    return None


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
        self._committer: Committer | None = None
        self._server: CheckpointServer | None = None
        self._count = 0
        self._skipped: list[str] = []
        self._taking = threading.Lock()
        self._places_free = threading.Semaphore(settings.IN_FLIGHT)
        self._todo: queue.SimpleQueue[tuple[Staged, threading.Event, list[str]] | None]
        self._todo = queue.SimpleQueue()
        self._worker: threading.Thread | None = None

    @property
    def proven(self) -> set[str]:
        """Return the DVC objects that this process hashed while it stored them."""
        return self._committer.proven if self._committer else set()

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
        if self._view is None or has_native_checkpoints():
            return
        self._committer_for(stage)
        if self._server is None:
            self._server = CheckpointServer(self._request)

    def stage_command_ended(self, stage: Any, error: BaseException | None) -> None:  # noqa: ANN401
        """Note how the command ended; after an end in good order its outputs are whole."""
        address = str(stage.addressing)
        returncode = command_returncode(error)
        self.stage_error = error
        if error is None:
            self.unsaved = address
        elif returncode is not None:
            self.cause = Cause.of_returncode(address, returncode)
        else:
            self.cause = Cause.of_error(error, address)

    def stage_is_done(self, stage: Any, *, changed: bool) -> None:  # noqa: ANN401
        """Note that DVC saved a stage, or found it unchanged; a saved one is a checkpoint."""
        view = view_pipeline(stage, running=False)
        self._view, self.unsaved = None, None
        if view is None:
            return
        self._finished.add(view.stage.key)
        if changed:
            self._committer_for(stage)
            self._take(view, wait=False)

    def environment(self) -> dict[str, str]:
        """Return what the stage's command needs in its environment."""
        env = {"DVC_CKPT_RECOVER_PID": str(os.getpid()), settings.ENV_RUN: self.record.run_id}
        if self._server:
            env[settings.ENV_ADDRESS] = self._server.address
        return env

    def finish(self) -> None:
        """Store what is in flight and take no more; may be called again."""
        if self._server:
            self._server.stop()
            self._server = None
        if self.unsaved and self._view and self.unsaved == self._view.stage.address:
            self._keep_unsaved(self._view)
        if self._worker:
            self._todo.put(None)
            self._worker.join()
            self._worker = None

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

    def close(self) -> None:
        """Forget the run in this process; its lease must be let go by the caller."""
        _sessions.pop(os.path.abspath(self.record.temp_dir), None)

    def _keep_unsaved(self, view: PipelineView) -> None:
        """Keep what a command left that ended in good order but that DVC could not save."""
        if not has_native_checkpoints() and self._take(view, wait=True)["ok"]:
            self.unsaved = None

    # checkpoints, called from the trainers' threads

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("op") != "checkpoint":
            return {"ok": False, "reason": f"unknown request {request.get('op')!r}"}
        view = self._view
        if view is None:
            return {"ok": False, "reason": "no stage is running"}
        return self._take(view, wait=bool(request.get("wait")))

    def _take(self, view: PipelineView, *, wait: bool) -> dict[str, Any]:
        self._places_free.acquire()
        try:
            with self._taking:
                staged = self._stage_aside(view)
        except (RecoverError, OSError) as exc:
            self._places_free.release()
            return self._skip(view, exc)
        except BaseException:
            self._places_free.release()
            raise
        done, errors = threading.Event(), []  # type: ignore[var-annotated]
        self._start_worker()
        self._todo.put((staged, done, errors))
        if wait:
            done.wait()
            if errors:
                return {"ok": False, "reason": errors[0]}
        return {"ok": True}

    def _skip(self, view: PipelineView, error: Exception) -> dict[str, Any]:
        reason = str(error)
        self._skipped.append(f"stage {view.stage.address}: {reason}")
        failures.note(f"a checkpoint of stage {view.stage.address} was skipped", error)
        return {"ok": False, "reason": reason}

    def _stage_aside(self, view: PipelineView) -> Staged:
        self._count += 1
        self.places.make()
        folder = new_folder(self.places.staging(self.record.run_id), self._count)
        allowed = (view.git_root, self.record.main_root, self._cache_root())
        known = self._committer.known if self._committer else {}
        try:
            outs = Snapshot(folder, known, tuple(map(os.path.realpath, allowed))).outs(view)
            running = view.stage.key not in self._finished
            if not running:  # DVC stored its cached outputs and wrote its lock entry
                outs = tuple(out for out in outs if not out.cached)
            staged = Staged(
                folder=folder,
                stage=view.stage.address,
                lock_path=view.stage.key[0],
                stage_name=view.stage.key[1],
                entry=view.stage.entry if running else None,
                locks=self._locks(view),
                drop=tuple(self._unstarted(view)),
                outs=outs,
            )
            staged.mark_ready()
        except BaseException:
            discard(folder)
            raise
        return staged

    def _cache_root(self) -> str:
        return self._committer.cache_root if self._committer else self.record.main_root

    def _unstarted(self, view: PipelineView) -> Iterable[str]:
        yield f"{self.record.dvc_dir}/tmp/repro.dat".replace(os.sep, "/")
        for stage in view.related:
            if stage.key not in self._finished:
                yield from (out.repo_path for out in stage.outs if not out.cached)

    def _locks(self, view: PipelineView) -> dict[str, dict[str, Any]]:
        unfinished = {stage.key for stage in view.related if stage.key not in self._finished}
        locks = {}
        for path in sorted({stage.key[0] for stage in view.related}):
            try:
                with open(os.path.join(view.git_root, *path.split("/")), "rb") as file:
                    lock = lockfile.parse(file.read(), path)
            except FileNotFoundError:
                lock = {}
            stages = lock.get("stages") or {}
            kept = {name: entry for name, entry in stages.items() if (path, name) not in unfinished}
            if lock:
                lock["stages"] = kept
            locks[path] = lock
        return locks

    # storing, in a thread of its own

    def _committer_for(self, stage: Any) -> None:  # noqa: ANN401
        if self._committer is None:
            self._committer = Committer(self.record, Cache(stage.repo))

    def _start_worker(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._store_all, name="ckpt-store", daemon=True)
            self._worker.start()

    def _store_all(self) -> None:
        while True:
            item = self._todo.get()
            if item is None:
                return
            staged, done, errors = item
            try:
                assert self._committer is not None  # noqa: S101
                self._committer.commit(staged)
            except Exception as exc:  # noqa: BLE001
                errors.append(str(exc))
                self._skipped.append(f"stage {staged.stage}: {exc}")
                failures.note(f"a checkpoint of stage {staged.stage} was skipped", exc)
                if self._committer:
                    self._committer.known.clear()
                staged.discard()
            finally:
                self._places_free.release()
                done.set()
