"""Make a run of ours out of a temp dir without a record, so that the one pipeline can end it.

Its refs are written before its record, so that a kill in between leaves a run without a record,
which is recovered from its refs. All of it can be repeated.

Failure rule: nothing in the temp dir is changed; an error leaves it for the next try.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.dvc_api import executors, lockfile
from dvc_ckpt_recover.dvc_api.cache import md5_of
from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git import LIVE, RUNS, Refs, Store, copy_history, verify_history
from dvc_ckpt_recover.git.store import BLOB
from dvc_ckpt_recover.model import CheckpointNote
from dvc_ckpt_recover.recovery.removal import bring_back
from dvc_ckpt_recover.runs.temp_dirs import locks_in

if TYPE_CHECKING:
    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.dvc_api.lockfile import LockedOut
    from dvc_ckpt_recover.runs import Places, RunRecord

Lock = dict[str, Any]
Blobs = dict[str, tuple[str, int]]


def adopt(places: Places, record: RunRecord, cache: Cache) -> RunRecord:
    """Bring what the temp dir's repository has into the main one, under a live ref.

    Args:
        places: The project's places.
        record: The run, as far as it is known; its temp dir must be there.
        cache: The project's DVC cache.

    Returns:
        The record, saved.

    Raises:
        RecoverError: The temp dir's repository is damaged, or a ref could not be made.
        OSError: Something could not be written.
    """
    bring_back(record.temp_dir)
    source, store = Store(record.temp_dir), Store(record.main_root)
    refs = Refs(store)
    _copy_stash(source, store, record)
    if refs.get(RUNS + record.run_id) is None:
        refs.move(RUNS + record.run_id, record.stash_rev, None)
    made = _new_experiments(source, store)
    finished = bool(made) and _is_finished(source, record)
    if not finished and refs.get(LIVE + record.run_id) is None:
        tip = next(iter(made.values()), None)
        if tip is not None:
            copy_history(source, store, tip, record.parent)
        else:
            tip = _keep_finished_stages(source, store, record, cache)
        if tip is not None:
            store.sync(verify_history(Store(record.main_root), tip, record.parent))
            refs.move(LIVE + record.run_id, tip, None)
            refs.sync(LIVE + record.run_id)
    record = record.changed(reproduced=finished)
    record.save(places)
    return record


def _copy_stash(source: Store, store: Store, record: RunRecord) -> None:
    """Copy the stash commit with all its parents: the index and untracked files are commits too."""
    if store.has(record.stash_rev):  # the rule: DVC made it here
        return
    for parent in list(source.commit(record.stash_rev).parent_ids)[1:]:
        store.sync(copy_history(source, store, str(parent), record.parent))
    store.sync(copy_history(source, store, record.stash_rev, record.parent))


def _new_experiments(source: Store, store: Store) -> dict[str, str]:
    """Return the experiment refs that DVC made or moved in the temp dir: ref -> commit."""
    main = Refs(store)
    found = {}
    for ref, sha in Refs(source).list("refs/exps/", strict=True).items():
        if executors.is_experiment_ref(ref):
            held = main.get(ref)
            if held is None or not store.is_ancestor(sha, held):
                found[ref] = sha
    return found


def _is_finished(source: Store, record: RunRecord) -> bool:
    """Return whether the experiment in the temp dir is a whole one, not native checkpoints."""
    info = executors.read_info(record.infofile)
    if info is not None and info.has_result:
        return True
    return Refs(source).get(executors.EXEC_CHECKPOINT) is None


def _keep_finished_stages(
    source: Store, store: Store, record: RunRecord, cache: Cache
) -> str | None:
    """Make one checkpoint of the stages that DVC had saved when it died; None when there are none.

    A stage counts when its lock entry is not the one that the run started with and each of its
    outputs is whole. What is not known to belong to this run is left out, as in any checkpoint.
    """
    before = source.files_named(record.stash_rev, lockfile.LOCK_NAME)
    put: Blobs = {}
    drop = {f"{record.dvc_dir}/tmp/repro.dat".replace(os.sep, "/")}  # noqa: S108 - DVC's own
    stages: list[str] = []
    for path, data in locks_in(record.temp_dir):
        lock = lockfile.parse(data, path)
        old = lockfile.parse(before.get(path, b""), path).get("stages") or {}
        place = _Place(store, cache, record.temp_dir, os.path.dirname(path))
        kept, blobs, gone = _kept_stages(place, lock.get("stages") or {}, old)
        stages += [name for name in kept if kept[name] != old.get(name)]
        drop |= {path, *gone}
        put.update(blobs)
        if kept:
            put[path] = (store.blob(lockfile.dump({**lock, "stages": kept})), BLOB)
    if not stages:
        return None
    tree = store.make_tree(record.stash_rev, put, drop)
    message = CheckpointNote(1, stages[-1]).message(record.name)
    return store.make_commit(tree, [record.parent], message)


@dataclass(frozen=True)
class _Place:
    """Where the outputs of one lock file are; ``folder`` is the lock's, relative to the top."""

    store: Store
    cache: Cache
    top: str
    folder: str

    def repo_path(self, path: str) -> str:
        """Return an output's path relative to the Git root."""
        return os.path.normpath(os.path.join(self.folder, path)).replace(os.sep, "/")

    def whole(self, outs: list[LockedOut]) -> Blobs | None:
        """Return the Git blobs of outputs that DVC does not cache; None if one is not whole."""
        blobs = {}
        try:
            for out in outs:
                if self.cache.has(out.oid, out.hash_name):
                    self._prove(out)
                    continue
                place = self.repo_path(out.path)
                path = os.path.join(self.top, *place.split("/"))
                if md5_of(path) != out.oid:
                    return None
                with open(path, "rb") as file:
                    blobs[place] = (self.store.blob(file.read()), BLOB)
        except (DamagedError, OSError):
            return None
        return blobs

    def _prove(self, out: LockedOut) -> None:
        oids = list(self.cache.closure(out.oid, out.hash_name))
        for oid in oids:
            self.cache.check(oid, out.hash_name)
        self.cache.sync(oids, out.hash_name)


def _kept_stages(place: _Place, stages: Lock, old: Lock) -> tuple[Lock, Blobs, set[str]]:
    """Return the lock entries to keep, the Git blobs of their outputs, and paths to leave out."""
    outs: dict[str, list[LockedOut]] = {name: [] for name in stages}
    for out in lockfile.locked_outs({"stages": stages}):
        outs[out.stage].append(out)
    blobs = {name: place.whole(found) for name, found in outs.items()}
    done = [name for name in stages if stages[name] != old.get(name) and blobs[name] is not None]
    names = _with_upstream(stages, outs, done)
    kept = {name: entry for name, entry in stages.items() if name in names}
    put = {path: blob for name in kept for path, blob in (blobs[name] or {}).items()}
    gone = {place.repo_path(out.path) for name in stages if name not in kept for out in outs[name]}
    return kept, put, gone


def _with_upstream(stages: Lock, outs: dict[str, list[LockedOut]], done: list[str]) -> set[str]:
    """Return ``done`` and the unchanged stages whose outputs these used, by hash."""
    makers = {(out.path, out.oid): name for name in stages for out in outs.get(name, [])}
    found, todo = set(), list(done)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            deps = (stages[name] or {}).get("deps") or []
            used = (makers.get((str(dep.get("path")), str(dep.get("md5")))) for dep in deps)
            todo += [maker for maker in used if maker]
    return found
