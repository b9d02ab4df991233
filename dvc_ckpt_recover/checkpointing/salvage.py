"""Keep what a stage held when its trainer died, as one *unproven* checkpoint.

Nobody said that these files are whole, so each that changed since the last checkpoint must be
proven by its format; what is torn, or of an unknown format, is left out and named. With a
checkpoint to fall back on, one output left out means that none is kept: a model and an optimizer of
different moments are no state to go on from.

Failure rule: a file that cannot be copied whole is left out; a full disk is an OSError, and the
caller keeps the temp dir.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dvc_ckpt_recover import settings
from dvc_ckpt_recover.checkpointing.aside import Asider
from dvc_ckpt_recover.checkpointing.commit import Committer
from dvc_ckpt_recover.checkpointing.running_stage import recall
from dvc_ckpt_recover.dvc_api import lockfile
from dvc_ckpt_recover.dvc_api.cache import md5_of
from dvc_ckpt_recover.dvc_api.version import has_native_checkpoints
from dvc_ckpt_recover.errors import CheckpointSkippedError, DamagedError
from dvc_ckpt_recover.formats import Member, inspect
from dvc_ckpt_recover.git import LIVE, Refs, Store, closing_of
from dvc_ckpt_recover.model import Salvaged
from dvc_ckpt_recover.model.trailers import UNPROVEN

if TYPE_CHECKING:
    from dvc_ckpt_recover.checkpointing.staged import Staged
    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.dvc_api.stages import OutView, PipelineView
    from dvc_ckpt_recover.runs import Places, RunRecord

_PATIENCE = 3.0
_QUIET = 0.3
_LONG_AGO = 2_000_000_000
"""ns; a file that nobody wrote for so long is quiet, whose run died before."""


@dataclass
class _Finding:
    """What is to be kept and what not."""

    kept: list[OutView]
    left_out: dict[str, str]
    changed: bool = False
    torn: tuple[str, ...] = ()


def salvage(places: Places, record: RunRecord, cache: Cache) -> Salvaged:
    """Make an unproven checkpoint of what the stage that died held, if there is something.

    The caller must hold the run's lease, with no process of the run left. Can be repeated.

    Args:
        places: Where the run's files lie.
        record: The run.
        cache: The project's DVC cache.

    Raises:
        OSError: It could not be stored (disk full).
        DamagedError: What was stored does not read back.
    """
    known = recall(places, record.run_id)
    if known is None or has_native_checkpoints():  # DVC 2 has its own way to write lock files
        return Salvaged()
    view, finished = known
    if not settings.StageSettings.read(view.stage.meta)[0].salvage:
        return Salvaged()
    store = Store(record.main_root)
    tip = Refs(store).get(LIVE + record.run_id)
    if tip and closing_of(store, tip):
        return Salvaged()
    base = _Base(store, tip or record.stash_rev, view, cache)
    restless = _wait_until_quiet(view)
    found = _look(view, base, restless)
    lines = tuple(f"{path}: {reason}" for path, reason in found.left_out.items())
    if not found.changed or (found.torn and base.is_checkpoint):
        return Salvaged(None, lines)
    top_level = tuple(
        path for path in view.top_level if _repo_path(path, view) not in found.left_out
    )
    stage = replace(view.stage, outs=tuple(found.kept))
    kept = replace(view, stage=stage, top_level=top_level)
    committer = Committer(record, cache)
    asider = Asider(places, record, finished)
    try:
        staged = asider.take(kept, committer, (), None, lambda made: _as_unproven(made, found))
    except CheckpointSkippedError as exc:
        return Salvaged(None, (*lines, str(exc)))
    return Salvaged(committer.commit(staged), lines)


def _as_unproven(staged: Staged, found: _Finding) -> Staged:
    drop = (*staged.drop, *found.left_out)
    return replace(staged, state=UNPROVEN, drop=drop, torn=found.torn)


class _Base:
    """The state before: the last checkpoint, or what the run started from.

    Attributes:
        is_checkpoint: Whether it is a checkpoint of the stage itself.
    """

    def __init__(self, store: Store, commit: str, view: PipelineView, cache: Cache) -> None:
        path, name = view.stage.key
        data = store.file_at(commit, path)
        entry = ((lockfile.parse(data, path).get("stages") or {}) if data else {}).get(name) or {}
        outs = lockfile.locked_outs({"stages": {name: entry}})
        self.is_checkpoint = lockfile.is_unfinished(entry)
        self._outs = {out.path: out for out in outs}
        self._cache = cache

    def has(self, out: OutView) -> bool:
        """Return whether an output is the same as it was then."""
        held = self._outs.get(out.def_path)
        files = _files(out.path)
        if held is None or not files:
            return False
        try:
            if held.oid.endswith(".dir") != ("" not in files):
                return False
            folder = held.oid.endswith(".dir")
            old = self._cache.members(held.oid, held.hash_name) if folder else {"": held.oid}
        except DamagedError:
            return False
        return old.keys() == files.keys() and all(
            md5_of(path) == old[name] for name, path in files.items()
        )


def _look(view: PipelineView, base: _Base, restless: set[str]) -> _Finding:
    found = _Finding([], {})
    torn = []
    for out in view.stage.outs:
        if not (out.resumable or out.shown) or not os.path.lexists(out.path):
            continue
        if out.cached and base.has(out):
            found.kept.append(out)
            continue
        reason = "it was still changing" if out.path in restless else _why_not(out.path)
        if reason is None:
            found.kept.append(out)
            found.changed |= out.resumable
        else:
            found.left_out[out.repo_path] = reason
            if out.resumable:
                torn.append(out.def_path)
    for path in view.top_level:
        reason = _why_not(path) if os.path.isfile(path) else None
        if reason is not None:
            found.left_out[_repo_path(path, view)] = reason
    found.torn = tuple(torn)
    return found


def _why_not(path: str) -> str | None:
    """Return why an output is not kept, or None when all of it is proven whole."""
    members = {name: Member(os.path.basename(file), file) for name, file in _files(path).items()}
    try:
        seen = inspect(members)
    except OSError as exc:
        return exc.strerror or str(exc)
    if seen.torn:
        name, reason = next(iter(seen.torn.items()))
        return f"{name}: {reason}" if name else reason
    if seen.unknown:
        name = seen.unknown[0]
        return f"{f'{name} ' if name else ''}cannot be proven whole"
    return None


def _files(path: str) -> dict[str, str]:
    """Return the files of an output: path in it -> path; empty for the output itself."""
    if not os.path.isdir(path):
        return {"": path} if os.path.isfile(path) else {}
    found = {}
    for folder, _, names in os.walk(path):
        prefix = os.path.relpath(folder, path).replace(os.sep, "/")
        for name in names:
            found[name if prefix == "." else f"{prefix}/{name}"] = os.path.join(folder, name)
    return found


def _repo_path(path: str, view: PipelineView) -> str:
    return os.path.relpath(path, view.git_root).replace(os.sep, "/")


def _wait_until_quiet(view: PipelineView) -> set[str]:
    """Wait until no output changes any more; return those that never stop, by path."""
    end = time.monotonic() + _PATIENCE
    before = _stamps(view)
    newest = max((file[2] for files in before.values() for file in files), default=0)
    if time.time_ns() - newest > _LONG_AGO:
        return set()
    while True:
        time.sleep(_QUIET)
        now = _stamps(view)
        restless = {path for path, stamp in now.items() if before.get(path) != stamp}
        if not restless or time.monotonic() > end:
            return restless
        before = now


def _stamps(view: PipelineView) -> dict[str, tuple[tuple[str, int, int], ...]]:
    found = {}
    for out in view.stage.outs:
        files = []
        for name, path in sorted(_files(out.path).items()):
            try:
                status = os.stat(path)
            except OSError:  # just removed: a change too
                continue
            files.append((name, status.st_size, status.st_mtime_ns))
        found[out.path] = tuple(files)
    return found
