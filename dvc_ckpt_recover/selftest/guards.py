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


def _no_reading_again() -> None:
    _put(("recovery.pipeline:prove",), lambda *_args, **_options: 0)


def _no_hashing() -> None:
    _put(("dvc_api.cache:Cache.check",), _nothing)


def _removal_first() -> None:
    """Remove the temp dir once all is copied, and publish then."""
    import shutil

    pipeline: Any = importlib.import_module(f"{_PKG}.recovery.pipeline")
    publish: Callable[..., str] = pipeline.publish
    kept: list[str] = []

    def put_aside(places: Any, record: Any) -> str:  # noqa: ANN401
        kept.append(aside(places, record))
        return kept[-1]

    def publish_late(*args: Any) -> str:  # noqa: ANN401
        shutil.rmtree(kept[-1])
        return str(publish(*args))

    aside = pipeline._put_aside  # noqa: SLF001 - taken out for a test
    _put(("recovery.pipeline:_put_aside",), put_aside)
    _put(("recovery.pipeline:publish",), publish_late)


def _any_lock_is_stale() -> None:
    _put(("git.locks:why_not_stale",), lambda *_args: "")


GUARDS: dict[str, Callable[[], None]] = {
    "sync of files": _no_sync_of_files,
    "sync of folders": _no_sync_of_folders,
    "re-read": _no_reading_again,
    "re-hash": _no_hashing,
    "order of publish and removal": _removal_first,
    "stale-lock rule": _any_lock_is_stale,
}
"""Name -> what takes it out of this process."""


def without(guards: Iterable[str]) -> None:
    """Take guards out of this process, which must be a child of a test."""
    _put(("recovery.pipeline:hold",), _nothing)  # reads all of /proc and changes no file
    locks.MIN_AGE, locks.WAIT = 0.05, 4.0  # seconds; nobody else is at work in a scene
    for guard in guards:
        GUARDS[guard]()
