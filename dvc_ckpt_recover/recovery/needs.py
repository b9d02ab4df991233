"""Which DVC objects the runs of a project need that are alive or not recovered yet.

Failure rule: a run whose commits cannot be read is an error, since nobody can tell what it needs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dvc_ckpt_recover.dvc_api import lockfile
from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git import LIVE, RUNS, Refs, commits_between
from dvc_ckpt_recover.recovery.proof import named_objects
from dvc_ckpt_recover.runs.rebuild import rebuild_record
from dvc_ckpt_recover.runs.temp_dirs import locks_in, temp_dirs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.git import Store
    from dvc_ckpt_recover.runs import Places


def needed_objects(places: Places, store: Store, cache: Cache) -> set[tuple[str, str]]:
    """Return hash and hash name of all objects that must stay, members of folders included.

    Args:
        places: The project's places.
        store: The main repository. The live refs of all its projects count: they may share a cache.
        cache: The project's DVC cache.

    Raises:
        DamagedError: A checkpoint cannot be read.
    """
    found = set(_in_checkpoints(places, store)) | set(_in_temp_dirs(places))
    members = set()
    for oid, hash_name in found:
        if oid.endswith(".dir") and cache.has(oid, hash_name):
            members |= {(name, hash_name) for name in cache.closure(oid, hash_name)}
    return found | members


def _in_checkpoints(places: Places, store: Store) -> Iterator[tuple[str, str]]:
    refs = Refs(store)
    stashes = refs.list(RUNS)
    for ref, tip in refs.list(LIVE).items():
        run_id = ref[len(LIVE) :]
        record = rebuild_record(places, store, run_id, tip, stashes.get(RUNS + run_id))
        for sha in commits_between(store, tip, record.parent) if record else [tip]:
            yield from named_objects(store, sha)


def _in_temp_dirs(places: Places) -> Iterator[tuple[str, str]]:
    """Return what the lock files name: stages that finished, and those that plain DVC ran."""
    for path in temp_dirs(places):
        for lock_path, data in locks_in(path):
            try:
                outs = lockfile.locked_outs(lockfile.parse(data, os.path.join(path, lock_path)))
            except DamagedError:
                continue  # torn while it is written: its stage has not finished
            yield from ((out.oid, out.hash_name) for out in outs)
