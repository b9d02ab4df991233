"""Temp dirs that no record and no ref names: plain DVC made them, or our own folder was removed.

Failure rule: what cannot be understood is listed with the reason and never touched.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dvc_ckpt_recover.durable import read_json
from dvc_ckpt_recover.dvc_api import executors
from dvc_ckpt_recover.errors import DamagedError, NotFoundError
from dvc_ckpt_recover.git import Refs, Store
from dvc_ckpt_recover.runs.process import runner_in, started_before, user_of
from dvc_ckpt_recover.runs.rebuild import make_record, told_by_stash
from dvc_ckpt_recover.runs.survey import RunFacts, RunState
from dvc_ckpt_recover.runs.temp_dirs import TOMBSTONE, temp_dirs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.runs import Places, RunRecord


_SETTLED = 120.0
"""Seconds for which a temp dir that is being set up or collected may stay as it is."""


@dataclass(frozen=True)
class Infos:
    """DVC's info files of a project, by the name of the temp dir that they tell of."""

    found: dict[str, str]

    @classmethod
    def read(cls, places: Places) -> Infos:
        """Read all that can be read. Those below ``standalone`` are kept up to date longer."""
        found = {}
        for folder in (places.exps, os.path.join(places.exps, "standalone")):
            for path in _info_files(os.path.join(folder, "run")):
                info = executors.read_info(path)
                if info is not None and info.root_dir:
                    found[os.path.basename(info.root_dir)] = path
        return cls(found)

    def of(self, temp_dir: str) -> str | None:
        """Return the info file of the run in ``temp_dir``, or None."""
        return self.found.get(os.path.basename(temp_dir))


def _info_files(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        yield os.path.join(folder, name, f"{name}.run")


def find_leftovers(places: Places, store: Store, known: set[str]) -> list[RunFacts]:
    """Return the temp dirs, tombstones included, that are not among ``known``.

    Args:
        places: The project's places.
        store: The main repository.
        known: Temp dirs of runs that have a record or refs.
    """
    paths = [path for path in temp_dirs(places) if path.removesuffix(TOMBSTONE) not in known]
    if not paths:
        return []
    infos = Infos.read(places)
    return [look_at(places, store, path, infos.of(path.removesuffix(TOMBSTONE))) for path in paths]


def look_at(places: Places, store: Store, path: str, infofile: str | None) -> RunFacts:
    """Return what the temp dir at ``path`` is; nothing is written."""
    name = os.path.basename(path)
    alive = _alive(store.root, path, infofile)
    state = RunState.ALIVE if alive else RunState.ORPHAN
    try:
        if not alive and holds_nothing(store, path):
            return RunFacts(name, RunState.EMPTY, leftover=path)
        record = _record(places, store, path, infofile)
    except (DamagedError, NotFoundError, OSError) as exc:
        state = state if alive else RunState.UNREADABLE
        return RunFacts(name, state, error=str(exc), leftover=path)
    return RunFacts(record.run_id, state, record, None, None, "", is_rebuilt=True, leftover=path)


def _alive(main_root: str, path: str, infofile: str | None) -> bool:
    """Return whether somebody may still need a temp dir.

    While stages run, their dvc works in it. Before and after that it does not, so that a dir
    changed a short time ago is left alone: its owner may be a Python program that we do not know.
    """
    changed = os.stat(path).st_mtime
    if user_of(path) is not None or _task_lives(infofile):
        return True
    if runner_in(main_root, changed + 1) is not None:
        return True
    info = executors.read_info(infofile)
    running = info is not None and info.status == executors.RUNNING
    return not running and 0 <= time.time() - changed < _SETTLED


def _task_lives(infofile: str | None) -> bool:
    """Return whether the process that DVC's queue noted beside an info file lives."""
    if infofile is None:
        return False
    path = f"{infofile.removesuffix('.run')}.json"
    try:
        value = read_json(path)
        written = os.stat(path).st_mtime
        return value.get("returncode") is None and started_before(int(value["pid"]), written + 1)
    except (OSError, DamagedError, KeyError, TypeError, ValueError):
        return False


def holds_nothing(store: Store, path: str) -> bool:
    """Return whether a temp dir is empty, or only a ``.git`` without an experiment of its own."""
    names = os.listdir(path)
    if not names:
        return True
    if names != [".git"]:
        return False
    main = Refs(store)
    for ref, sha in Refs(Store(path)).list("refs/exps/", strict=True).items():
        if executors.is_experiment_ref(ref):
            held = main.get(ref)
            if held is None or not store.is_ancestor(sha, held):
                return False
    return True


def _record(places: Places, store: Store, path: str, infofile: str | None) -> RunRecord:
    """Return a record for a temp dir. Raises DamagedError or NotFoundError."""
    source = Store(path)
    stash_rev = Refs(source).get(executors.EXEC_MERGE)
    told = told_by_stash(source, store, stash_rev)
    if stash_rev is None or told is None:
        msg = f"{path} does not tell which experiment it belongs to"
        raise DamagedError(msg, todo="look into it, and remove it by hand")
    temp_dir = path.removesuffix(TOMBSTONE)
    started = os.stat(os.path.join(path, ".git", "description")).st_mtime
    record = make_record(
        places, store.root, temp_dir, stash_rev=stash_rev, told=told, started=started
    )
    return record.changed(infofile=infofile)
