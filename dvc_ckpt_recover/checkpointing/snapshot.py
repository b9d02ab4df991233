"""Copy the outputs of a stage aside while its trainer waits.

Failure rule: one file that cannot be copied whole skips this checkpoint, with the reason; nothing
of it stays behind.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

from dvc_ckpt_recover.checkpointing.staged import StagedFile, StagedOut
from dvc_ckpt_recover.dvc_api.cache import clone_or_copy
from dvc_ckpt_recover.errors import CheckpointSkippedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.dvc_api.stages import OutView, PipelineView

_TICK_NS = 50_000_000
_METRICS = (".json", ".tsv", ".csv", ".yaml", ".yml")
_COARSE_NS = 2_000_000_000

Known = dict[str, tuple[tuple[int, ...], str]]
"""Path -> (stamp, object) of the files of the checkpoint before."""
Seen = dict[str, os.stat_result]
"""Path inside an output -> its status."""


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


def _has_settled(status: os.stat_result, now: int) -> bool:
    """Return whether a later change is sure to change the stamp: the file system's clock ticked.

    Linux stamps files in steps of at most 10 ms; a time without a part of a second is taken for
    one of a file system that counts whole seconds, or two.
    """
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    return now - newest > (_TICK_NS if newest % 1_000_000_000 else _COARSE_NS)


class Snapshot:
    """One copying.

    Args:
        folder: Where the copies go.
        known: Files that need not be copied when their stamp is the same.
        allowed: Folders that a link may lead into.
    """

    def __init__(self, folder: str, known: Known, allowed: tuple[str, ...]) -> None:
        self._folder = folder
        self._device = os.stat(folder).st_dev
        self._known = known
        self._allowed = allowed
        self._count = 0
        self._seen: dict[str, Seen] = {}

    def outs(
        self, view: PipelineView, *, cached: bool, extra: tuple[str, ...] = ()
    ) -> tuple[StagedOut, ...]:
        """Copy the outputs of the stage, and the metrics that belong to none.

        Args:
            view: The stage and what is around it.
            cached: Whether to copy the outputs too that DVC stores.
            extra: Files and folders of metrics that no ``dvc.yaml`` names yet; of a folder those
                files are copied that are metrics by their suffix.

        Raises:
            CheckpointSkippedError: One of them is missing, changed meanwhile or cannot be copied.
        """
        found = [self._out(out) for out in view.stage.outs if cached or not out.cached]
        covered = [out.path for other in view.related for out in other.outs]
        metrics = dict.fromkeys((*view.top_level, *self._metrics(extra, view.git_root)))
        found += [
            self._single(path, view.git_root)
            for path in metrics
            if os.path.isfile(path) and not _inside(path, covered)
        ]
        self._check_unchanged()
        return tuple(out for out in found if out is not None)

    @staticmethod
    def _metrics(extra: tuple[str, ...], root: str) -> Iterator[str]:
        private = [os.path.join(root, name) for name in (".git", ".dvc")]
        for top in extra:
            if not _inside(top, [root]) or _inside(top, private):
                continue
            if not os.path.isdir(top):
                yield top
                continue
            for name in sorted(_look(top)):
                if name.endswith(_METRICS):
                    yield _join(top, name)

    def _out(self, out: OutView) -> StagedOut | None:
        if not os.path.lexists(out.path):
            if out.resumable:
                msg = f"the output {out.def_path} is missing"
                raise CheckpointSkippedError(msg)
            return None
        folder = os.path.isdir(out.path)
        return StagedOut(out.repo_path, out.def_path, out.cached, folder, self._files(out.path))

    def _single(self, path: str, root: str) -> StagedOut:
        name = os.path.relpath(path, root).replace(os.sep, "/")
        return StagedOut(name, name, cached=False, folder=False, files=self._files(path))

    def _files(self, top: str) -> tuple[StagedFile, ...]:
        try:
            seen = self._seen[top] = _look(top)
        except OSError as exc:
            raise _not_copied(exc.filename or top, exc) from exc
        now = time.time_ns()
        files = []
        for name, status in sorted(seen.items()):
            path = _join(top, name)
            try:
                files.append(self._copy(path, name, status, now))
            except OSError as exc:
                raise _not_copied(path, exc) from exc
        return tuple(files)

    def _copy(self, path: str, name: str, status: os.stat_result, now: int) -> StagedFile:
        if not stat.S_ISREG(status.st_mode):
            msg = f"{path} is not a regular file"
            raise CheckpointSkippedError(msg)
        executable = bool(status.st_mode & stat.S_IXUSR)
        stamp = _stamp(status)
        known = self._known.get(path)
        if known and known[0] == stamp:
            return StagedFile(name, status.st_size, executable, oid=known[1], stamp=stamp)
        self._check_link(path)
        self._count += 1
        aside = f"{self._count}"
        clone_or_copy(path, os.path.join(self._folder, aside), (status.st_dev, self._device))
        stamp = stamp if _has_settled(status, now) else ()
        return StagedFile(name, status.st_size, executable, aside=aside, stamp=stamp)

    def _check_unchanged(self) -> None:
        """Look at all again: what changed since the first look may be mixed from two states."""
        for top, before in self._seen.items():
            try:
                after = _look(top)
            except OSError as exc:
                raise _not_copied(exc.filename or top, exc) from exc
            if before.keys() != after.keys():
                name = min(before.keys() ^ after.keys())
                raise _changed(_join(top, name))
            for name, status in before.items():
                if _stamp(status) != _stamp(after[name]):
                    raise _changed(_join(top, name))

    def _check_link(self, path: str) -> None:
        if os.path.islink(path) and not _inside(os.path.realpath(path), list(self._allowed)):
            msg = f"{path} is a link that leads out of the repository"
            raise CheckpointSkippedError(msg)


def _not_copied(path: str, error: OSError) -> CheckpointSkippedError:
    return CheckpointSkippedError(f"{path} could not be copied aside ({error.strerror or error})")


def _changed(path: str) -> CheckpointSkippedError:
    return CheckpointSkippedError(f"{path} changed while it was copied aside")


def _inside(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def _join(top: str, name: str) -> str:
    return os.path.join(top, *name.split("/")) if name else top


def _look(top: str) -> Seen:
    """Return the status of the file ``top``, or of all files below it. Raises OSError."""
    if os.path.isdir(top):
        return dict(_walk(top, ""))
    return {"": os.stat(top)}


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files below ``folder``, links followed; linked folders are left out, as by DVC."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{name}/")
            elif not (entry.is_symlink() and entry.is_dir()):
                yield name, entry.stat()
