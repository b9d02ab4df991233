"""Take a temp dir away: renamed first, so that no half-removed dir carries its name.

Failure rule: only a folder right below DVC's own ``tmp/exps``, and no link, is ever touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from dvc_ckpt_recover.errors import UnsafeError

if TYPE_CHECKING:
    from dvc_ckpt_recover.runs import Places
from dvc_ckpt_recover.runs.temp_dirs import TOMBSTONE


def tombstone_of(temp_dir: str) -> str:
    """Return the name that a temp dir gets before it is removed."""
    return temp_dir + TOMBSTONE


def _check(temp_dir: str, places: Places) -> None:
    exps = os.path.realpath(places.exps)
    inside = os.path.realpath(temp_dir).startswith(exps + os.sep)
    if os.path.islink(temp_dir) or not inside or os.path.basename(temp_dir) in ("run", "celery"):
        msg = f"{temp_dir} is not a temp dir of this project"
        raise UnsafeError(msg, todo="remove it by hand if you know what it is")


def set_aside(temp_dir: str, places: Places) -> str:
    """Rename the temp dir away and return its new name; done before is fine too.

    Raises:
        UnsafeError: It is not one of DVC's temp dirs.
        OSError: It could not be renamed.
    """
    aside = tombstone_of(temp_dir)
    if os.path.lexists(temp_dir):
        _check(temp_dir, places)
        os.rename(temp_dir, aside)
    return aside


def bring_back(temp_dir: str) -> None:
    """Give a temp dir that was set aside its name again."""
    aside = tombstone_of(temp_dir)
    if os.path.isdir(aside) and not os.path.lexists(temp_dir):
        os.rename(aside, temp_dir)


def remove_aside(temp_dir: str, places: Places) -> None:
    """Remove what was set aside; can be repeated. Raises OSError with something left."""
    aside = tombstone_of(temp_dir)
    if os.path.isdir(aside):
        _check(aside, places)
        shutil.rmtree(aside, onerror=_make_writable)


def _make_writable(_function: object, path: str, _error: object) -> None:
    """Try once more with write permission, for read-only files from the cache."""
    with contextlib.suppress(FileNotFoundError):
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
