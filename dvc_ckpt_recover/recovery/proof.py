"""Prove that the main repository and the DVC cache hold an experiment, and sync what proves it.

Failure rule: anything missing or damaged is an error; the caller then keeps the temp dir.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dvc_ckpt_recover.dvc_api import lockfile
from dvc_ckpt_recover.dvc_api.cache import md5_of
from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git import Store, verify_history

if TYPE_CHECKING:
    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.dvc_api.lockfile import LockedOut


def named_objects(store: Store, commit: str) -> dict[tuple[str, str], tuple[str, LockedOut]]:
    """Return what a commit's lock files name: (hash, hash name) -> (lock's folder, output)."""
    found = {}
    for path, data in store.files_named(commit, lockfile.LOCK_NAME).items():
        for out in lockfile.locked_outs(lockfile.parse(data, path)):
            found[out.oid, out.hash_name] = (os.path.dirname(path), out)
    return found


def prove(  # noqa: PLR0913
    main_root: str, cache: Cache, *, tip: str, stop: str | None, proven: set[str], temp_dir: str
) -> int:
    """Read, hash and sync all that the commits from ``tip`` to ``stop`` brought.

    Args:
        main_root: The main repository, opened anew so that nothing comes from memory.
        cache: The project's DVC cache.
        tip: The experiment's commit.
        stop: The commit before its first, whose objects are not this run's.
        proven: DVC objects that this run hashed already while it stored them.
        temp_dir: Where bytes that the cache lacks may still be.

    Returns:
        How many Git and DVC objects were proven.

    Raises:
        DamagedError: One is missing or has other bytes, and the temp dir still has something there.
        OSError: It could not be synced.
    """
    store = Store(main_root)
    objects = verify_history(store, tip, stop)
    store.sync(objects)
    before = named_objects(store, stop) if stop and store.has(stop) else {}
    count = len(objects)
    for (oid, hash_name), (folder, out) in named_objects(store, tip).items():
        if (oid, hash_name) not in before:
            work_path = os.path.join(temp_dir, folder, out.path)
            count += _prove_out(cache, oid, hash_name, proven, work_path)
    return count


def _prove_out(cache: Cache, oid: str, hash_name: str, proven: set[str], work_path: str) -> int:
    if not cache.has(oid, hash_name):
        if not os.path.lexists(work_path):
            return 0  # never was here (partial pull, --allow-missing), so nothing can be lost
        _carry_over(cache, oid, hash_name, work_path)
    synced = []
    for member in cache.closure(oid, hash_name):
        if member not in proven:
            cache.check(member, hash_name)
            proven.add(member)
        synced.append(member)
    cache.sync(synced, hash_name)
    return len(synced)


def _carry_over(cache: Cache, oid: str, hash_name: str, work_path: str) -> None:
    """Store an output that is whole in the temp dir and missing in the cache."""
    whole = os.path.isfile(work_path) and hash_name == "md5" and md5_of(work_path) == oid
    if not whole:
        msg = f"the DVC object {oid} of {work_path} is not in the cache"
        raise DamagedError(msg)
    cache.copy_in(oid, work_path)
