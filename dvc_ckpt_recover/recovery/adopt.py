"""Make a run of ours out of a temp dir without a record, so that the one pipeline can end it.

Its refs are written before its record, so that a kill in between leaves a run without a record,
which is recovered from its refs. All of it can be repeated.

Failure rule: nothing in the temp dir is changed; an error leaves it for the next try.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.dvc_api import executors, lockfile
from dvc_ckpt_recover.dvc_api.cache import md5_of
from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git import LIVE, RUNS, Refs, Store, copy_history, verify_history
from dvc_ckpt_recover.git.store import BLOB
from dvc_ckpt_recover.model import CheckpointNote
from dvc_ckpt_recover.recovery.removal import bring_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.dvc_api.lockfile import LockedOut
    from dvc_ckpt_recover.runs import Places, RunRecord

Lock = dict[str, Any]


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
    for parent in list(source.commit(record.stash_rev).parent_ids)[1:]:
        store.sync(copy_history(source, store, str(parent), record.parent))
    store.sync(copy_history(source, store, record.stash_rev, record.parent))


def _new_experiments(source: Store, store: Store) -> dict[str, str]:
    """Return the experiment refs that DVC made or moved in the temp dir: ref -> commit."""
    main = Refs(store)
    found = {}
    for ref, sha in Refs(source).list("refs/exps/").items():
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
    put: dict[str, tuple[str, int]] = {}
    drop = {f"{record.dvc_dir}/tmp/repro.dat".replace(os.sep, "/")}
    stages: list[str] = []
    for path, data in _locks(record.temp_dir):
        lock = lockfile.parse(data, path)
        old = lockfile.parse(before.get(path, b""), path).get("stages") or {}
        kept, blobs, gone = _kept_stages(store, record, cache, path, lock, old)
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


def _locks(top: str) -> Iterator[tuple[str, bytes]]:
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in (".git", ".dvc"))
        if lockfile.LOCK_NAME in names:
            path = os.path.join(folder, lockfile.LOCK_NAME)
            with open(path, "rb") as file:
                yield os.path.relpath(path, top).replace(os.sep, "/"), file.read()


def _kept_stages(  # noqa: PLR0913 - all are needed
    store: Store, record: RunRecord, cache: Cache, path: str, lock: Lock, old: Lock
) -> tuple[Lock, dict[str, tuple[str, int]], set[str]]:
    """Return the lock entries to keep, the Git blobs of their outputs, and paths to leave out."""
    stages = lock.get("stages") or {}
    outs: dict[str, list[LockedOut]] = {}
    for out in lockfile.locked_outs(lock):
        outs.setdefault(out.stage, []).append(out)
    folder = os.path.dirname(path)
    blobs: dict[str, dict[str, tuple[str, int]] | None] = {}
    for name in stages:
        blobs[name] = _whole(store, record, cache, folder, outs.get(name, []))
    done = [name for name in stages if stages[name] != old.get(name) and blobs[name] is not None]
    names = _with_upstream(stages, outs, done)
    kept = {name: entry for name, entry in stages.items() if name in names}
    put = {place: blob for name in kept for place, blob in (blobs[name] or {}).items()}
    others = (out for name in stages if name not in kept for out in outs.get(name, []))
    return kept, put, {_repo_path(folder, out.path) for out in others}


def _repo_path(folder: str, path: str) -> str:
    return os.path.normpath(os.path.join(folder, path)).replace(os.sep, "/")


def _whole(
    store: Store, record: RunRecord, cache: Cache, folder: str, outs: list[LockedOut]
) -> dict[str, tuple[str, int]] | None:
    """Return the Git blobs of a stage's outputs that DVC does not cache; None if one is not whole."""
    blobs = {}
    for out in outs:
        try:
            if cache.has(out.oid, out.hash_name):
                oids = list(cache.closure(out.oid, out.hash_name))
                for oid in oids:
                    cache.check(oid, out.hash_name)
                cache.sync(oids, out.hash_name)
                continue
            place = _repo_path(folder, out.path)
            path = os.path.join(record.temp_dir, *place.split("/"))
            if md5_of(path) != out.oid:
                return None
            with open(path, "rb") as file:
                blobs[place] = (store.blob(file.read()), BLOB)
        except (DamagedError, OSError):
            return None
    return blobs


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
