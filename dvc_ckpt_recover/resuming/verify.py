"""Prove that a checkpoint is whole: read and hash all that it names, and open known formats.

Failure rule: what is damaged or missing is asked of the DVC remote; what is still not whole after
that is a DamagedError that names it.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from typing import TYPE_CHECKING, Callable

from dvc_ckpt_recover.dvc_api import lockfile
from dvc_ckpt_recover.dvc_api.version import has_native_checkpoints
from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.formats import Member, inspect
from dvc_ckpt_recover.git.verify import verify_tree

if TYPE_CHECKING:
    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.dvc_api.lockfile import LockedOut
    from dvc_ckpt_recover.git import Store

_DVC_FILES = (lockfile.LOCK_NAME, lockfile.PIPELINE_NAME)
Mend = Callable[[list[str], str], None]


class Verifier:
    """Verifies checkpoints of one repository; each DVC object is read once.

    Args:
        store: The main repository.
        cache: The project's DVC cache.
        mend: Gets objects, by hash and name of the hash, from the remote as far as it has them.

    Attributes:
        damaged: Objects that are not whole, by hash and name of the hash.
    """

    def __init__(self, store: Store, cache: Cache, mend: Mend) -> None:
        self._store = store
        self._cache = cache
        self._mend = mend
        self._whole: set[tuple[str, str]] = set()
        self.damaged: set[tuple[str, str]] = set()

    def check(self, sha: str, baseline: str, *, trust: bool) -> None:
        """Read all that the checkpoint ``sha`` names.

        Args:
            sha: The checkpoint's commit.
            baseline: The experiment's baseline, whose files are not the checkpoint's.
            trust: Whether files of an unknown format count as whole, since the trainer said so.

        Raises:
            DamagedError: Something is missing, damaged or torn.
        """
        files = verify_tree(self._store, sha)
        for out in _stored_outs(self._store, sha):
            self._check_out(out)
        before = _parent(self._store, sha) if not trust else baseline
        self._check_formats(sha, files, before, trust=trust)

    def _check_formats(
        self, sha: str, files: dict[str, str], before: str | None, *, trust: bool
    ) -> None:
        """Open what is new since the commit ``before``, as far as the formats are known."""
        old = self._store.blobs(before) if before else {}
        known = {out.oid for out in _stored_outs(self._store, before)} if before else set()
        for out in _stored_outs(self._store, sha):
            if (out.unfinished or has_native_checkpoints()) and out.oid not in known:
                _judge(out.path, self._members_of(out), trust=trust)
        for path, blob in files.items():
            name = path.rpartition("/")[2]
            if old.get(path) != blob and name not in _DVC_FILES and not name.endswith(".dvc"):
                member = Member(name, data=self._store.read(blob)[1])
                _judge(path, {"": member}, trust=trust)

    def _members_of(self, out: LockedOut) -> dict[str, Member]:
        if not out.oid.endswith(".dir"):
            name = os.path.basename(out.path)
            return {"": Member(name, self._cache.path(out.oid, out.hash_name))}
        return {
            path: Member(path.rpartition("/")[2], self._cache.path(oid, out.hash_name))
            for path, oid in self._cache.members(out.oid, out.hash_name).items()
        }

    def _check_out(self, out: LockedOut) -> None:
        """Check an output's object and, for a folder, those of its files."""
        self._check_all([out.oid], out)
        if out.oid.endswith(".dir"):
            self._check_all(list(self._cache.closure(out.oid, out.hash_name)), out)

    def _check_all(self, oids: list[str], out: LockedOut) -> None:
        bad = self._bad(oids, out.hash_name)
        if not bad:
            return
        with contextlib.suppress(DamagedError, OSError):  # they are still bad then
            self._mend(list(bad), out.hash_name)
        still = self._bad(list(bad), out.hash_name)
        self.damaged |= {(oid, out.hash_name) for oid in still}
        if still:
            damage = next(iter(still.values()))
            raise DamagedError(f"{out.path} of stage {out.stage}: {damage}")

    def _bad(self, oids: list[str], hash_name: str) -> dict[str, DamagedError]:
        found = {}
        for oid in oids:
            if (oid, hash_name) in self._whole:
                continue
            try:
                self._cache.check(oid, hash_name)
            except DamagedError as exc:
                found[oid] = exc
            else:
                self._whole.add((oid, hash_name))
        return found


def _stored_outs(store: Store, sha: str) -> list[LockedOut]:
    """Return the outputs in a commit's lock files whose bytes DVC stores, not Git."""
    tracked = store.blobs(sha)
    folders = {path[:end] for path in tracked for end, sign in enumerate(path) if sign == "/"}
    found = []
    for path, data in store.files_named(sha, lockfile.LOCK_NAME).items():
        top = posixpath.dirname(path)
        pipeline = store.file_at(sha, posixpath.join(top, lockfile.PIPELINE_NAME))
        dirs = lockfile.working_dirs(pipeline)
        for out in lockfile.locked_outs(lockfile.parse(data, path)):
            place = posixpath.join(top, dirs.get(out.stage.partition("@")[0], ""), out.path)
            place = posixpath.normpath(place)
            if place not in tracked and place not in folders:
                found.append(out)
    return found


def _parent(store: Store, sha: str) -> str | None:
    parents = store.commit(sha).parent_ids
    return str(parents[0]) if parents else None


def _judge(what: str, members: dict[str, Member], *, trust: bool) -> None:
    """Raise DamagedError when a file is torn or, without ``trust``, cannot be proven whole."""
    found = inspect(members, prove=not trust)
    for path, reason in found.torn.items():
        raise DamagedError(f"{_join(what, path)} is torn: {reason}")
    for path in () if trust else found.unknown:
        raise DamagedError(f"{_join(what, path)} has a format in which it cannot be proven whole")


def _join(what: str, path: str) -> str:
    return f"{what}/{path}" if path else what
