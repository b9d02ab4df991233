"""Take one guard of the product out, to see which test turns red. Only tests do this."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Callable

from dvc_ckpt_recover.git import locks

if TYPE_CHECKING:
    from collections.abc import Iterable

_PKG = "dvc_ckpt_recover"


def _nothing(*_args: Any, **_options: Any) -> None:  # noqa: ANN401
    return None


def _put(places: Iterable[str], value: Callable[..., Any]) -> None:
    for place in places:
        module, _, name = place.partition(":")
        target: Any = importlib.import_module(f"{_PKG}.{module}")
        *outer, last = name.split(".")
        for part in outer:
            target = getattr(target, part)
        setattr(target, last, value)


def _no_sync_of_files() -> None:
    names = ("durable.sync:sync_file", "git.refs:sync_file", "git.store:sync_file")
    _put(names, _nothing)
    _put(("dvc_api.cache:sync_files",), _nothing)


def _no_sync_of_folders() -> None:
    names = ("durable.sync:sync_dir", "durable.files:sync_dir", "git.store:sync_dir")
    _put((*names, "dvc_api.cache:sync_dir"), _nothing)
    _put(("git.refs:sync_dirs_up", "git.store:sync_dirs_up"), _nothing)


GUARDS: dict[str, Callable[[], None]] = {
    "sync of files": _no_sync_of_files,
    "sync of folders": _no_sync_of_folders,
}
"""Name -> what takes it out of this process."""


def without(guards: Iterable[str]) -> None:
    """Take guards out of this process, which must be a child of a test."""
    _put(("recovery.pipeline:hold",), _nothing)  # reads all of /proc and changes no file
    locks.MIN_AGE = 0.05
    for guard in guards:
        GUARDS[guard]()
