"""Make a ready checkpoint of what was copied aside: objects, commit, live ref, in this order.

Failure rule: the live ref moves last, so whatever fails before leaves the checkpoint before it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.checkpointing.staged import StagedGoneError, check_copy
from dvc_ckpt_recover.dvc_api import lockfile
from dvc_ckpt_recover.dvc_api.cache import md5_of
from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git import LIVE, Refs, Store, commits_between, verify_history
from dvc_ckpt_recover.git.history import last_number
from dvc_ckpt_recover.git.store import BLOB, EXECUTABLE
from dvc_ckpt_recover.git.verify import new_in_tree
from dvc_ckpt_recover.model import CheckpointNote

if TYPE_CHECKING:
    from dvc_ckpt_recover.checkpointing.retention import Retention
    from dvc_ckpt_recover.checkpointing.snapshot import Known
    from dvc_ckpt_recover.checkpointing.staged import Staged, StagedFile, StagedOut
    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.runs import RunRecord


class Committer:
    """Stores the checkpoints of one run, one after the other.

    Args:
        record: The run.
        cache: The project's DVC cache.
        retention: Removes what dropped checkpoints leave in the cache; None: nothing does.

    Attributes:
        known: Files stored so far, for the next snapshot.
        proven: DVC objects that were hashed while they were stored.
    """

    def __init__(self, record: RunRecord, cache: Cache, retention: Retention | None = None) -> None:
        self._record = record
        self._cache = cache
        self._live = LIVE + record.run_id
        self._retention = retention
        self._new: set[str] = set()
        self._synced: set[str] = set()
        self.known: Known = {}
        self.proven: set[str] = set()

    @property
    def cache_root(self) -> str:
        """Return the folder of the object store, for links that lead there."""
        return self._cache.root

    def commit(self, staged: Staged, *, again: bool = False) -> str:
        """Store ``staged`` and move the live ref to it; its copies are used up.

        It may be killed anywhere and repeated, by another process too.

        Args:
            staged: What was copied aside.
            again: Whether an earlier process may have moved the live ref to it already.

        Returns:
            The commit's name.

        Raises:
            OSError: An object could not be written or synced (cache full, read-only).
            DamagedError: What was written does not read back.
            UnsafeError: The live ref could not be moved.
        """
        try:
            return self._commit(staged, again=again)
        except DamagedError:
            if not Store(self._record.main_root).drop_empty():
                raise
            return self._commit(staged, again=True)

    def _commit(self, staged: Staged, *, again: bool) -> str:
        store = Store(self._record.main_root)
        refs = Refs(store)
        tip = refs.get(self._live)
        number = last_number(store, tip or self._record.parent, self._record.baseline) + 1
        put, oids, entries = self._store_outs(staged, store)
        same = self._tree(store, staged, entries, put, number - 1, tip) if again and tip else None
        if tip and same == store.tree_sha(tip):
            sha = tip
        else:
            if tip and same:  # nothing names it, but an empty object would disturb Git
                store.sync(new_in_tree(store, same, store.tree_sha(tip)))
            tree = self._tree(store, staged, entries, put, number, tip)
            note = CheckpointNote(number, staged.stage, staged.state, staged.torn)
            message = note.message(self._record.name)
            parent = self._parent(store, tip, staged.keep)
            sha = store.make_commit(tree, [parent], message)
        self._cache.sync(oids)
        self._publish(refs, sha, tip)
        self.proven |= oids
        self._remember(staged, entries)
        staged.discard()
        if self._retention and staged.keep is not None:
            self._retention.made(self._new)
            locks = self._locks(staged, entries, number)
            self.proven -= self._retention.committed(locks, staged.keep)
        self._new = set()
        return sha

    def _parent(self, store: Store, tip: str | None, keep: int | None) -> str:
        """Return what the next checkpoint follows: the tip, or its copy on a shortened chain."""
        if tip is None or keep is None:
            return tip or self._record.parent
        chain = commits_between(store, tip, self._record.parent)
        if len(chain) < keep:
            return tip
        parent = self._record.parent
        for sha in reversed(chain[: keep - 1]):
            old = store.commit(sha)
            parent = store.make_commit(str(old.tree_id), [parent], old.message)
        return parent

    def _publish(self, refs: Refs, sha: str, tip: str | None) -> None:
        """Prove the commit, bring it to the disk, and have the live ref name it."""
        fresh = Store(self._record.main_root)
        stop = tip if tip and fresh.is_ancestor(tip, sha) else self._record.parent
        objects = set(verify_history(fresh, sha, stop))
        fresh.sync(objects - self._synced)
        self._synced = objects
        if sha != tip:
            refs.move(self._live, sha, tip)
        refs.sync(self._live)

    def forget(self) -> None:
        """Copy all files at the next checkpoint, whether they changed or not."""
        self.known = {}

    def _store_outs(
        self, staged: Staged, store: Store
    ) -> tuple[dict[str, tuple[str, int]], set[str], dict[str, dict[str, Any]]]:
        put: dict[str, tuple[str, int]] = {}
        oids: set[str] = set()
        entries: dict[str, dict[str, Any]] = {}
        for out in staged.outs:
            if out.cached:
                entry = self._store_cached(staged.folder, out, oids)
                entries[out.repo_path] = entry
            else:
                blobs = {}
                for file in out.files:
                    path = f"{out.repo_path}/{file.name}" if file.name else out.repo_path
                    aside = os.path.join(staged.folder, file.aside)
                    if not file.oid:
                        check_copy(aside, file.size)
                    sha = file.oid or store.blob_of(aside)
                    put[path] = (sha, EXECUTABLE if file.executable else BLOB)
                    blobs[file.name] = sha
                entries[out.repo_path] = {"files": blobs}
        return put, oids, entries

    def _store_cached(self, folder: str, out: StagedOut, oids: set[str]) -> dict[str, Any]:
        files = {file.name: self._store_file(folder, file, oids) for file in out.files}
        entry: dict[str, Any] = {"path": out.def_path, "hash": "md5"}
        size = sum(file.size for file in out.files)
        if out.folder:
            oid, is_new = self._cache.put_tree(files, os.path.join(folder, f"{len(oids)}.dir"))
            if is_new:
                self._new.add(oid)
            entry |= {"md5": oid, "size": size, "nfiles": len(files)}
        else:
            oid = files[""]
            entry |= {"md5": oid, "size": size}
            if out.files[0].executable:
                entry["isexec"] = True
        oids.add(oid)
        return {"lock": entry, "files": files}

    def _store_file(self, folder: str, file: StagedFile, oids: set[str]) -> str:
        if file.oid:
            if file.oid not in self.proven and not self._cache.has(file.oid):
                msg = f"the DVC object {file.oid} of an unchanged file is gone from the cache"
                raise StagedGoneError(msg)
            return file.oid
        aside = os.path.join(folder, file.aside)
        check_copy(aside, file.size)
        oid = md5_of(aside)
        if not self._cache.has(oid):
            self._new.add(oid)
        self._cache.share(oid, aside)
        oids.add(oid)
        return oid

    def _tree(  # noqa: PLR0913, PLR0917 - all that a tree is made of
        self,
        store: Store,
        staged: Staged,
        entries: dict[str, dict[str, Any]],
        put: dict[str, tuple[str, int]],
        number: int,
        tip: str | None = None,
    ) -> str:
        put = dict(put)
        drop = set(staged.drop) | {out.repo_path for out in staged.outs if not out.cached}
        for path, data in self._locks(staged, entries, number).items():
            drop.add(path)
            if data is not None:
                put[path] = (store.blob(data), BLOB)
        return store.make_tree(tip or self._record.stash_rev, put, drop)

    @staticmethod
    def _locks(
        staged: Staged, entries: dict[str, dict[str, Any]], number: int
    ) -> dict[str, bytes | None]:
        locks = {path: dict(value) for path, value in staged.locks.items()}
        if staged.entry is not None:
            lock = locks.setdefault(staged.lock_path, {})
            entry = dict(staged.entry)
            entry["cmd"] = lockfile.unfinished_command(entry.get("cmd"), number)
            outs = [entry["lock"] for entry in entries.values() if "lock" in entry]
            if outs:
                entry["outs"] = sorted(outs, key=lambda out: str(out["path"]))
            lock.setdefault("schema", "2.0")
            lock["stages"] = {**(lock.get("stages") or {}), staged.stage_name: entry}
        return {
            path: lockfile.dump(lock) if lock.get("stages") or len(lock) > 1 else None
            for path, lock in locks.items()
        }

    def _remember(self, staged: Staged, entries: dict[str, dict[str, Any]]) -> None:
        root = self._record.temp_dir
        known: Known = {}
        for out in staged.outs:
            top = os.path.join(root, *out.repo_path.split("/"))
            oids = entries[out.repo_path]["files"]
            for file in out.files:
                if file.stamp:
                    path = os.path.join(top, *file.name.split("/")) if file.name else top
                    known[path] = (file.stamp, oids[file.name])
        self.known = known  # a snapshot that is being made keeps the one that it has
