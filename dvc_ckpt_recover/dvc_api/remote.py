"""Get single objects of the DVC cache back from the project's default remote."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from shortuuid import uuid

from dvc_ckpt_recover.dvc_api.version import has_native_checkpoints
from dvc_ckpt_recover.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dvc_ckpt_recover.dvc_api.cache import Cache


def mend(repo: Any, cache: Cache, oids: Iterable[str], hash_name: str = "md5") -> None:  # noqa: ANN401
    """Replace missing or damaged objects by the remote's, as far as it has them.

    Whatever the remote does not give is as before. What came must still be checked.

    Raises:
        DamagedError: There is no remote, or it cannot be reached.
        OSError: The cache cannot be written.
    """
    if not repo.config.get("core", {}).get("remote"):
        raise DamagedError("there is no DVC remote")
    oids = list(oids)
    aside = {}
    for oid in oids:
        path = cache.path(oid, hash_name)
        if os.path.lexists(path):
            aside[path] = f"{path}.{uuid()}.tmp"  # as DVC names its own half-done files there
            os.rename(path, aside[path])
    try:
        _pull(repo, oids, hash_name)
    except Exception as exc:
        raise DamagedError(f"the DVC remote could not be asked ({exc})") from exc
    finally:
        for path, old in aside.items():
            if os.path.lexists(path):
                os.unlink(old)
            else:
                os.rename(old, path)


def _pull(repo: Any, oids: list[str], hash_name: str) -> None:  # noqa: ANN401
    from dvc_data.hashfile.hash_info import HashInfo

    name = "md5" if has_native_checkpoints() else hash_name  # DVC 2 has one name for both
    repo.cloud.pull([HashInfo(name, oid) for oid in oids])
