"""Prove that a checkpoint is whole: read and hash all that it names, and open known formats.

Failure rule: what is damaged or missing is asked of the DVC remote; what is still not whole after
that is a DamagedError that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from dvc_ckpt_recover.dvc_api import lockfile
from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.git.verify import verify_tree

if TYPE_CHECKING:
    from dvc_ckpt_recover.dvc_api.cache import Cache
    from dvc_ckpt_recover.dvc_api.lockfile import LockedOut
    from dvc_ckpt_recover.git import Store

Mend = Callable[[str, str], None]


class Verifier:
    """Verifies checkpoints of one repository; each DVC object is read once.

    Args:
        store: The main repository.
        cache: The project's DVC cache.
        mend: Gets an object, by hash and name of the hash, from the remote; raises DamagedError.
    """

    def __init__(self, store: Store, cache: Cache, mend: Mend) -> None:
        self._store = store
        self._cache = cache
        self._mend = mend
        self._whole: set[tuple[str, str]] = set()

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
        outs = []
        for path in files:
            if path.rpartition("/")[2] == lockfile.LOCK_NAME:
                data = self._store.file_at(sha, path) or b""
                outs += lockfile.locked_outs(lockfile.parse(data, path))
        for out in outs:
            self._check_out(out)

    def _check_out(self, out: LockedOut) -> None:
        for oid in self._members(out):
            if (oid, out.hash_name) in self._whole:
                continue
            try:
                self._cache.check(oid, out.hash_name)
            except DamagedError as exc:
                self._fetch(oid, out, exc)
            self._whole.add((oid, out.hash_name))

    def _members(self, out: LockedOut) -> list[str]:
        """Return the object of an output and, for a folder, those of its files."""
        if not out.oid.endswith(".dir"):
            return [out.oid]
        try:
            self._cache.check(out.oid, out.hash_name)
        except DamagedError as exc:
            self._fetch(out.oid, out, exc)
        return list(self._cache.closure(out.oid, out.hash_name))

    def _fetch(self, oid: str, out: LockedOut, damage: DamagedError) -> None:
        try:
            self._mend(oid, out.hash_name)
        except (DamagedError, OSError) as exc:
            msg = f"{out.path} of stage {out.stage}: {damage}"
            raise DamagedError(msg) from exc
