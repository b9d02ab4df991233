"""Prove that the main repository and the DVC cache hold an experiment, and sync what proves it.

Failure rule: anything missing or damaged is an error; the caller then keeps the temp dir.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dvc_ckpt_recover.dvc_api import lockfile
from dvc_ckpt_recover.dvc_api.cache import listing_of, md5_of
from dvc_ckpt_recover.errors import DamagedError, NotFoundError
from dvc_ckpt_recover.git import Store, copy_history, verify_history

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
    objects = _prove_history(main_root, tip, stop, temp_dir)
    store = Store(main_root)
    store.sync(objects)
    before = named_objects(store, stop) if stop and store.has(stop) else {}
    count = len(objects)
    for (oid, hash_name), (folder, out) in named_objects(store, tip).items():
        if (oid, hash_name) not in before:
            work_path = os.path.join(temp_dir, folder, out.path)
            count += _prove_out(cache, oid, hash_name, proven, work_path)
    return count


def _prove_history(main_root: str, tip: str, stop: str | None, temp_dir: str) -> list[str]:
    """Return the Git objects that were proven; what is damaged is fetched again once."""
    store = Store(main_root)
    try:
        return verify_history(store, tip, stop)
    except DamagedError as damage:
        try:
            copy_history(Store(temp_dir), store, tip, stop, force=True)
        except (DamagedError, NotFoundError):
            raise damage from None  # the temp dir does not have it either
    return verify_history(Store(main_root), tip, stop)


def _prove_out(cache: Cache, oid: str, hash_name: str, proven: set[str], work_path: str) -> int:
    is_left = os.path.lexists(work_path)
    if not cache.has(oid, hash_name):
        if not is_left:
            return 0  # never was here (partial pull, --allow-missing), so nothing can be lost
        _carry_over(cache, oid, hash_name, work_path)
    try:
        return _hash_and_sync(cache, oid, hash_name, proven)
    except DamagedError:
        if not is_left:
            raise
        _carry_over(cache, oid, hash_name, work_path)
    return _hash_and_sync(cache, oid, hash_name, proven)


def _hash_and_sync(cache: Cache, oid: str, hash_name: str, proven: set[str]) -> int:
    synced = []
    for member in cache.closure(oid, hash_name):
        if member not in proven:
            cache.check(member, hash_name)
        synced.append(member)
    cache.sync(synced, hash_name)
    proven.update(synced)
    return len(synced)


def _carry_over(cache: Cache, oid: str, hash_name: str, work_path: str) -> None:
    """Store an output that is whole in the temp dir and missing or damaged in the cache.

    By a second name where that can be, since a full disk is why it may be missing.
    """
    files = _files_of(work_path) if oid.endswith(".dir") else {"": work_path}
    oids = {name: md5_of(path) for name, path in files.items() if os.path.isfile(path)}
    if hash_name != "md5" or not _is_whole(cache, oid, oids):
        msg = f"the DVC object {oid} of {work_path} is not whole in the cache, nor in the temp dir"
        raise DamagedError(msg)
    for name, path in files.items():
        if not cache.has(oids[name]) or md5_of(cache.path(oids[name])) != oids[name]:
            store = cache.copy_in if os.path.islink(path) else cache.share
            store(oids[name], path)


def _is_whole(cache: Cache, oid: str, oids: dict[str, str]) -> bool:
    """Return whether an output has these files; a folder's own object is stored on the way."""
    if not oid.endswith(".dir"):
        return oids.get("") == oid
    return listing_of(oids)[0] == oid and cache.put_listing(oids) == oid


def _files_of(top: str) -> dict[str, str]:
    """Return the files of a folder: path in it, with ``/`` -> path."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, top).replace(os.sep, "/")] = path
    return found
