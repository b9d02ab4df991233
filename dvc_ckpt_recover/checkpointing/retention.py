"""``keep: K``: remove from the cache what only dropped checkpoints of this run had.

A checkpoint is dropped when the live ref has moved to a chain without it, never before. Its
objects go two checkpoints later, when no snapshot can refer to them any more, and only if

- this process stored them itself, under names that were free, and nobody touched them since;
- no kept checkpoint, no ref of the repository and no lock file in the workspace names them;
- no other run of the project is known, and the cache is the project's own, without links to it.

In all other cases, and whenever something cannot be read, they stay for ``dvc gc``.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.dvc_api import lockfile
from dvc_ckpt_recover.git import LIVE, RUNS, Refs, Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.runs import Places, RunRecord

_DELAY = 2
Stamp = tuple[int, int, int]


class Retention:
    """What this process stored for one run, and which checkpoint needs it.

    Args:
        record: The run.
        places: Where the files of the project's runs lie.
        cache: The project's DVC cache.
    """

    def __init__(self, record: RunRecord, places: Places, cache: Cache) -> None:
        self._record = record
        self._places = places
        self._cache = cache
        self._made: dict[str, Stamp] = {}
        self._kept: list[set[str]] = []
        self._due: list[tuple[int, set[str]]] = []
        self._count = 0
        self._named: dict[str, set[str]] = {}
        self._paused = False
        self._lock = threading.Lock()

    def made(self, oids: Iterable[str]) -> None:
        """Note objects that this process stored under names that were free."""
        for oid in oids:
            self._made[oid] = self._stamp(oid)

    def committed(self, locks: dict[str, bytes | None], keep: int) -> set[str]:
        """Note a checkpoint that the live ref names now, and remove what is due.

        Args:
            locks: Its lock files.
            keep: How many checkpoints are kept with it.

        Returns:
            The objects that were removed.
        """
        self._count += 1
        self._kept.append(self._objects(data for data in locks.values() if data))
        while len(self._kept) > keep:
            self._due.append((self._count, self._kept.pop(0)))
        with self._lock:
            return set() if self._paused else self._purge(self._count - _DELAY)

    def purge(self) -> set[str]:
        """Remove all that was dropped, when no checkpoints come any more, and return it."""
        with self._lock:
            return self._purge(None)

    def _purge(self, until: int | None) -> set[str]:
        """Remove what was dropped at the ``until``-th checkpoint or before; None: all."""
        due = [oids for count, oids in self._due if until is None or count <= until]
        if not due or not self._made:
            return set()
        try:
            if not self._may_remove():
                return set()
            self._due = self._due[len(due) :]
            doomed = set().union(*due) & self._made.keys()
            doomed -= set().union(*self._kept, *(oids for _, oids in self._due))
            doomed -= self._named_elsewhere()
            return {oid for oid in doomed if self._remove(oid)}
        except Exception as exc:  # noqa: BLE001
            failures.note("objects of dropped checkpoints stay for `dvc gc`", exc)
            return set()

    def pause(self, *, paused: bool = True) -> None:
        """Remove nothing for now: DVC stores a stage's outputs, which may be the same objects."""
        with self._lock:
            self._paused = paused

    def _may_remove(self) -> bool:
        alone = set(self._places.runs()) <= {self._record.run_id}
        return alone and self._cache.is_private(os.path.dirname(self._places.dvc_tmp))

    def _named_elsewhere(self) -> set[str]:
        """Return the objects that refs and the workspace name; ours are not among them."""
        store = Store(self._record.main_root)
        own = (LIVE + self._record.run_id, RUNS + self._record.run_id)
        found: set[str] = set()
        for ref, sha in Refs(store).list("refs/").items():
            if ref not in own:
                found |= self._named_by(store, sha)
        return found | self._objects(self._workspace_locks())

    def _named_by(self, store: Store, sha: str) -> set[str]:
        if sha not in self._named:
            locks = store.files_named(sha, lockfile.LOCK_NAME).values()
            self._named[sha] = self._objects(locks)
        return self._named[sha]

    def _workspace_locks(self) -> Iterable[bytes]:
        paths = Store(self._record.main_root).files_named(
            self._record.stash_rev, lockfile.PIPELINE_NAME
        )
        for path in paths:
            folder = os.path.dirname(os.path.join(self._record.main_root, *path.split("/")))
            lock = os.path.join(folder, lockfile.LOCK_NAME)
            if os.path.exists(lock):
                with open(lock, "rb") as file:
                    yield file.read()

    def _objects(self, locks: Iterable[bytes]) -> set[str]:
        """Return the objects in lock files, those of the files in folders included."""
        found = set()
        for data in locks:
            for out in lockfile.locked_outs(lockfile.parse(data)):
                if out.oid.endswith(".dir") and self._cache.has(out.oid, out.hash_name):
                    found |= set(self._cache.closure(out.oid, out.hash_name))
                found.add(out.oid)
        return found

    def _stamp(self, oid: str) -> Stamp:
        status = os.stat(self._cache.path(oid))
        return (status.st_ino, status.st_nlink, status.st_mtime_ns)

    def _remove(self, oid: str) -> bool:
        stamp = self._made.pop(oid)
        try:
            if self._stamp(oid) != stamp or stamp[1] != 1:  # stored again, or linked to
                return False
            os.unlink(self._cache.path(oid))
        except FileNotFoundError:
            return False
        return True
