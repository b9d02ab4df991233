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

_SETTLED_NS = 1_000_000_000
"""A file changed less than this before it was copied may change again within one clock tick."""

Known = dict[str, tuple[tuple[int, ...], str]]
"""Path -> (stamp, object) of files stored by an earlier checkpoint of the run."""


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_size, status.st_mtime_ns, status.st_ino)


class Snapshot:
    """One copying.

    Args:
        folder: Where the copies go.
        known: Files that need not be copied when their stamp is the same.
        allowed: Folders that a link may lead into.
    """

    def __init__(self, folder: str, known: Known, allowed: tuple[str, ...]) -> None:
        self._folder = folder
        self._known = known
        self._allowed = allowed
        self._count = 0
        self._now = time.time_ns()

    def outs(self, view: PipelineView) -> tuple[StagedOut, ...]:
        """Copy all outputs of the stage, and the metrics that belong to none.

        Raises:
            CheckpointSkippedError: One of them changed meanwhile or cannot be copied.
        """
        found = [self._out(out) for out in view.stage.outs]
        covered = [out.path for other in view.related for out in other.outs]
        found += [
            self._single(path, view.git_root)
            for path in view.top_level
            if os.path.isfile(path) and not _inside(path, covered)
        ]
        return tuple(out for out in found if out is not None)

    def _out(self, out: OutView) -> StagedOut | None:
        if not os.path.lexists(out.path):
            return None
        folder = os.path.isdir(out.path)
        if not folder:
            file = self._file(out.path, "")
            return StagedOut(out.repo_path, out.def_path, out.cached, folder, (file,))
        names = _walk(out.path)
        files = [self._file(os.path.join(out.path, *name.split("/")), name) for name in names]
        return StagedOut(out.repo_path, out.def_path, out.cached, folder, tuple(files))

    def _single(self, path: str, root: str) -> StagedOut:
        repo_path = os.path.relpath(path, root).replace(os.sep, "/")
        file = self._file(path, "")
        return StagedOut(repo_path, repo_path, cached=False, folder=False, files=(file,))

    def _file(self, path: str, name: str) -> StagedFile:
        try:
            return self._copy(path, name)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            msg = f"{path} could not be copied aside ({reason})"
            raise CheckpointSkippedError(msg) from exc

    def _copy(self, path: str, name: str) -> StagedFile:
        self._check_link(path)
        before = os.stat(path)
        if not stat.S_ISREG(before.st_mode):
            msg = f"{path} is not a regular file"
            raise CheckpointSkippedError(msg)
        executable = bool(before.st_mode & stat.S_IXUSR)
        known = self._known.get(path)
        if known and known[0] == _stamp(before):
            return StagedFile(name, before.st_size, executable, oid=known[1], stamp=known[0])
        self._count += 1
        aside = f"{self._count}"
        target = os.path.join(self._folder, aside)
        clone_or_copy(path, target)
        after = os.stat(path)
        if _stamp(before) != _stamp(after) or os.path.getsize(target) != before.st_size:
            msg = f"{path} changed while it was copied aside"
            raise CheckpointSkippedError(msg)
        settled = self._now - before.st_mtime_ns > _SETTLED_NS
        stamp = _stamp(before) if settled else ()
        return StagedFile(name, before.st_size, executable, aside=aside, stamp=stamp)

    def _check_link(self, path: str) -> None:
        if os.path.islink(path) and not _inside(os.path.realpath(path), list(self._allowed)):
            msg = f"{path} is a link that leads out of the repository"
            raise CheckpointSkippedError(msg)


def _inside(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def _walk(top: str) -> Iterator[str]:
    """Return the paths of all files below ``top``, relative, with ``/``, sorted by folder."""
    for folder, folders, names in os.walk(top):
        folders.sort()
        prefix = os.path.relpath(folder, top).replace(os.sep, "/")
        linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted(names) + linked:  # a link to a folder is refused as no regular file
            yield name if prefix == "." else f"{prefix}/{name}"
