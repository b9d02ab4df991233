"""Make one snapshot of a stage: its outputs copied aside, with all that a commit of it needs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable

from dvc_ckpt_recover.checkpointing.snapshot import Snapshot
from dvc_ckpt_recover.checkpointing.staged import Staged, discard, new_folder
from dvc_ckpt_recover.dvc_api import lockfile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dvc_ckpt_recover.checkpointing.commit import Committer
    from dvc_ckpt_recover.dvc_api.stages import PipelineView, StageKey
    from dvc_ckpt_recover.runs import Places, RunRecord


class Asider:
    """Makes the snapshots of one run.

    Args:
        places: Where its files lie.
        record: The run.
        finished: Stages that have finished; the caller adds to it.
    """

    def __init__(self, places: Places, record: RunRecord, finished: set[StageKey]) -> None:
        self._places = places
        self._record = record
        self._finished = finished

    def take(
        self,
        view: PipelineView,
        committer: Committer,
        extra: tuple[str, ...],
        keep: int | None,
        amend: Callable[[Staged], Staged] = lambda staged: staged,
    ) -> Staged:
        """Copy the outputs of ``view``'s stage aside.

        Args:
            view: The stage and what is around it.
            committer: What will store it; knows the files of the checkpoint before.
            extra: Files and folders of metrics that no ``dvc.yaml`` names yet.
            keep: How many checkpoints the run keeps with this one; None for all.
            amend: Has the last word on what was copied, before it counts.

        Raises:
            CheckpointSkippedError: They could not be copied whole; nothing stays behind.
            OSError: Likewise.
        """
        self._places.make()
        folder = new_folder(self._places.staging(self._record.run_id))
        try:
            staged = amend(self._staged(folder, view, committer, extra, keep))
            staged.mark_ready()
        except BaseException:
            discard(folder)
            raise
        return staged

    def _staged(
        self,
        folder: str,
        view: PipelineView,
        committer: Committer,
        extra: tuple[str, ...],
        keep: int | None,
    ) -> Staged:
        allowed = (view.git_root, self._record.main_root, committer.cache_root)
        snapshot = Snapshot(folder, committer.known, tuple(map(os.path.realpath, allowed)))
        running = view.stage.key not in self._finished
        # of a finished stage DVC stored the cached outputs and wrote the lock entry
        outs = snapshot.outs(view, cached=running, extra=extra)
        return Staged(
            folder=folder,
            stage=view.stage.address,
            lock_path=view.stage.key[0],
            stage_name=view.stage.key[1],
            entry=view.stage.entry if running else None,
            locks=self._locks(view),
            drop=tuple(self._unstarted(view)),
            outs=outs,
            keep=keep,
        )

    def _unstarted(self, view: PipelineView) -> Iterable[str]:
        yield "/".join([*self._record.dvc_dir.split(os.sep), "tmp", "repro.dat"])
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
