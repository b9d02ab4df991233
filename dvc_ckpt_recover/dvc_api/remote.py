"""Get single objects of the DVC cache back from the project's default remote.

Failure rule: the cache is as before unless the object that came has the right bytes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from shortuuid import uuid

from dvc_ckpt_recover.dvc_api.version import has_native_checkpoints
from dvc_ckpt_recover.errors import DamagedError

if TYPE_CHECKING:
    from dvc_ckpt_recover.dvc_api.cache import Cache


def _has_remote(repo: Any) -> bool:  # noqa: ANN401
    return bool(repo.config.get("core", {}).get("remote"))


def _pull(repo: Any, oid: str, hash_name: str) -> None:  # noqa: ANN401
    from dvc_data.hashfile.hash_info import HashInfo

    name = "md5" if has_native_checkpoints() else hash_name  # DVC 2 has one name for both
    repo.cloud.pull([HashInfo(name, oid)])


def mend(repo: Any, cache: Cache, oid: str, hash_name: str = "md5") -> None:  # noqa: ANN401
    """Replace a missing or damaged object by the remote's.

    Raises:
        DamagedError: There is no remote, it lacks the object, or its own is damaged too.
        OSError: The cache cannot be written.
    """
    if not _has_remote(repo):
        msg = f"the DVC object {oid} is not whole, and there is no DVC remote"
        raise DamagedError(msg)
    path = cache.path(oid, hash_name)
    aside = f"{path}.{uuid()}.tmp"  # as DVC names its own half-done files in the cache
    there = os.path.lexists(path)
    if there:
        os.rename(path, aside)
    try:
        _pull(repo, oid, hash_name)
        cache.check(oid, hash_name)
    except BaseException as exc:
        if there and not os.path.lexists(path):
            os.rename(aside, path)
            there = False
        if not isinstance(exc, Exception):
            raise
        msg = f"the DVC object {oid} is not whole, and the DVC remote did not give it ({exc})"
        raise DamagedError(msg) from exc
    finally:
        if there:
            os.unlink(aside)
