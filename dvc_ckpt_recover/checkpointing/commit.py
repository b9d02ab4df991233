"""Make a ready checkpoint of what was copied aside: objects, commit, live ref, in this order.

Failure rule: the live ref moves last, so whatever fails before leaves the checkpoint before it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.dvc_api import lockfile
from dvc_ckpt_recover.dvc_api.cache import md5_of
from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git import LIVE, Refs, Store, verify_history
from dvc_ckpt_recover.git.history import last_number
from dvc_ckpt_recover.git.store import BLOB, EXECUTABLE
from dvc_ckpt_recover.model import CheckpointNote

if TYPE_CHECKING:
    from dvc_ckpt_recover.checkpointing.snapshot import Known
    from dvc_ckpt_recover.checkpointing.staged import Staged, StagedFile, StagedOut
    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.runs import RunRecord


class Committer:
    """Stores the checkpoints of one run, one after the other.

    Args:
        record: The run.
        cache: The project's DVC cache.

    Attributes:
        known: Files stored so far, for the next snapshot.
        proven: DVC objects that were hashed while they were stored.
    """

    def __init__(self, record: RunRecord, cache: Cache) -> None:
        self._record = record
        self._cache = cache
        self.known: Known = {}
        self.proven: set[str] = set()

    @property
    def cache_root(self) -> str:
        """Return the folder of the object store, for links that lead there."""
        return self._cache.root

    def commit(self, staged: Staged) -> str:
        """Store ``staged`` and move the live ref to it; its copies are used up.

        Returns:
            The commit's name.

        Raises:
            OSError: An object could not be written or synced (cache full, read-only).
            DamagedError: What was written does not read back.
            UnsafeError: The live ref could not be moved.
        """
        store = Store(self._record.main_root)
        refs = Refs(store)
        live = LIVE + self._record.run_id
        tip = refs.get(live)
        parent = tip or self._record.parent
        number = last_number(store, parent, self._record.baseline) + 1
        put, oids, entries = self._store_outs(staged, store)
        drop = set(staged.drop) | {out.repo_path for out in staged.outs if not out.cached}
        for path, data in self._locks(staged, entries, number).items():
            drop.add(path)
            if data is not None:
                put[path] = (store.blob(data), BLOB)
        tree = store.make_tree(tip or self._record.stash_rev, put, drop)
        note = CheckpointNote(number, staged.stage, staged.state)
        sha = store.make_commit(tree, [parent], note.message(self._record.name))
        self._cache.sync(oids)
        store.sync(verify_history(Store(self._record.main_root), sha, parent))
        refs.move(live, sha, tip)
        refs.sync(live)
        self.proven |= oids
        self._remember(staged, entries)
        staged.discard()
        return sha

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
                    sha = file.oid or self._blob(store, os.path.join(staged.folder, file.aside))
                    put[path] = (sha, EXECUTABLE if file.executable else BLOB)
                    blobs[file.name] = sha
                entries[out.repo_path] = {"files": blobs}
        return put, oids, entries

    @staticmethod
    def _blob(store: Store, path: str) -> str:
        with open(path, "rb") as file:
            return store.blob(file.read())

    def _store_cached(self, folder: str, out: StagedOut, oids: set[str]) -> dict[str, Any]:
        files = {file.name: self._store_file(folder, file, oids) for file in out.files}
        entry: dict[str, Any] = {"path": out.def_path, "hash": "md5"}
        size = sum(file.size for file in out.files)
        if out.folder:
            oid = self._cache.put_tree(files, os.path.join(folder, f"{len(oids)}.dir"))
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
                raise DamagedError(msg)
            return file.oid
        aside = os.path.join(folder, file.aside)
        oid = md5_of(aside)
        shared = f"{aside}.put"  # the copy itself stays until the commit is there
        os.link(aside, shared)
        self._cache.put(oid, shared)
        oids.add(oid)
        return oid

    def _locks(
        self, staged: Staged, entries: dict[str, dict[str, Any]], number: int
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
        return {path: lockfile.dump(lock) if lock.get("stages") or len(lock) > 1 else None for path, lock in locks.items()}

    def _remember(self, staged: Staged, entries: dict[str, dict[str, Any]]) -> None:
        root = self._record.temp_dir
        for out in staged.outs:
            top = os.path.join(root, *out.repo_path.split("/"))
            for file in out.files:
                if file.stamp:
                    path = os.path.join(top, *file.name.split("/")) if file.name else top
                    self.known[path] = (file.stamp, entries[out.repo_path]["files"][file.name])
