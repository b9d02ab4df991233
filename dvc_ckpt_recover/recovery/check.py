"""Find what a power cut or a bad disk left of refs, Git objects and DVC objects, and repair it.

Looked at are the experiments, the private refs of runs, and what they name. Repairs take the bytes
from temp dirs, from commits that are still there, from Git remotes, and from the DVC remote.

Failure rule: nothing that is whole is touched; what cannot be repaired is named, each on a line.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

from dvc_ckpt_recover.dvc_api.executors import baseline_of, experiment_name, is_experiment_ref
from dvc_ckpt_recover.errors import DamagedError, NotFoundError, RecoverError
from dvc_ckpt_recover.git import (
    LIVE,
    RUNS,
    Refs,
    Store,
    closing_of,
    commits_between,
    copy_history,
    from_remotes,
    verify_history,
)
from dvc_ckpt_recover.git.locks import remove_if_stale, why_not_stale
from dvc_ckpt_recover.recovery.mend import find_tip
from dvc_ckpt_recover.recovery.proof import named_objects
from dvc_ckpt_recover.runs import Places, load_record
from dvc_ckpt_recover.runs.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dvc_ckpt_recover.dvc_api.cache import Cache

_LOCKS = ("packed-refs.lock", "index.lock", "HEAD.lock")
Mend = Callable[[str, str], None]
Progress = Callable[[list[str]], "Iterable[str]"]


@dataclass(frozen=True)
class Finding:
    """One thing that was not as it should be.

    Attributes:
        what: What it is, with its path or name.
        detail: What is wrong, and how it was repaired or what to do.
        is_repaired: Whether it is whole now.
    """

    what: str
    detail: str
    is_repaired: bool


class Check:
    """Looks at one project.

    Args:
        places: The project's places.
        root: The main repository's work tree.
        cache: The DVC cache.
        mend: Asks the DVC remote for an object, by hash and hash name; may raise DamagedError.
    """

    def __init__(self, places: Places, root: str, cache: Cache, mend: Mend) -> None:
        self._places = places
        self._root = root
        self._cache = cache
        self._mend = mend
        self._whole: set[tuple[str, str]] = set()

    def run(self, progress: Progress = iter) -> list[Finding]:
        """Look at everything once, repair what can be, and return what was found.

        Args:
            progress: Goes through a list and shows how far it is.
        """
        found = [*self._locks(), *self._empty_objects(), *self._refs()]
        refs = Refs(Store(self._root)).list("refs/")
        named = [ref for ref in sorted(refs) if is_experiment_ref(ref) or ref.startswith(LIVE)]
        for ref in progress(named):
            found += [*self._history(ref, refs[ref]), *self._objects(ref, refs[ref])]
        self._places.drop_empty()
        return found

    def _locks(self) -> Iterator[Finding]:
        top = Store(self._root).common_dir
        paths = [os.path.join(top, name) for name in _LOCKS]
        for folder, _, names in os.walk(os.path.join(top, "refs")):
            paths += [os.path.join(folder, name) for name in names if name.endswith(".lock")]
        for path in paths:
            if not os.path.exists(path):
                continue
            if remove_if_stale(path, top):
                yield Finding(f"lock {path}", "no process has it; removed", is_repaired=True)
            else:
                why = why_not_stale(path, top)
                yield Finding(f"lock {path}", f"left alone: {why}", is_repaired=False)

    def _empty_objects(self) -> Iterator[Finding]:
        for sha in Store(self._root).drop_empty():
            yield Finding(f"Git object {sha}", "its file was empty; removed", is_repaired=True)

    def _refs(self) -> Iterator[Finding]:
        store = Store(self._root)
        refs = Refs(store)
        for ref in refs.loose("refs"):
            try:
                refs.get(ref)
                continue
            except DamagedError as damage:
                error = damage
            try:
                sha = self._tip_of(store, ref)
                if sha is None:
                    todo = f"if nobody needs it, remove {store.common_dir}/{ref}"
                    yield Finding(f"ref {ref}", f"{error}; {todo}", is_repaired=False)
                    continue
                refs.mend(ref, sha)
                yield Finding(f"ref {ref}", f"names {sha[:7]} again", is_repaired=True)
            except RecoverError as exc:
                yield Finding(f"ref {ref}", str(exc), is_repaired=False)

    def _tip_of(self, store: Store, ref: str) -> str | None:
        """Return what a damaged ref named, as far as it can be known."""
        if ref.startswith((LIVE, RUNS)):
            try:
                record = load_record(self._places, ref.rpartition("/")[2])
            except (FileNotFoundError, DamagedError):
                return None
            if Lease(self._places, record.run_id).is_held():
                raise RecoverError("its run is alive", todo="repeat when it has ended")
            if ref.startswith(RUNS):
                return record.stash_rev if store.has(record.stash_rev) else None
            return find_tip(store, record.parent, record.name)
        if is_experiment_ref(ref):
            ours = find_tip(store, baseline_of(ref), experiment_name(ref))
            if ours and closing_of(store, ours):  # nothing of ours comes after it
                return ours
            return self._from_temp_dirs(store, ref) or self._from_remotes(store, ref)[0] or ours
        return None

    def _from_temp_dirs(self, store: Store, ref: str) -> str | None:
        for path in self._temp_dirs():
            try:
                sha = Refs(Store(path)).get(ref)
                if sha:
                    copy_history(Store(path), store, sha, baseline_of(ref))
            except (RecoverError, OSError):
                continue
            if sha:
                return sha
        return None

    def _temp_dirs(self) -> list[str]:
        found = []
        for folder in (self._places.exps, os.path.join(self._places.exps, "standalone")):
            if os.path.isdir(folder):
                paths = (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
                found += [path for path in paths if os.path.isdir(os.path.join(path, ".git"))]
        return found

    def _history(self, ref: str, tip: str) -> Iterator[Finding]:
        stop = self._stop_of(ref)
        try:
            verify_history(Store(self._root), tip, stop)
        except DamagedError as damage:
            error = damage
        else:
            return
        for path in self._temp_dirs():
            try:
                copy_history(Store(path), Store(self._root), tip, stop, force=True)
                verify_history(Store(self._root), tip, stop)
            except (DamagedError, NotFoundError):
                continue
            yield Finding(ref, f"{error}; brought back from {path}", is_repaired=True)
            return
        _, remote = self._from_remotes(Store(self._root), ref, tip)
        try:
            verify_history(Store(self._root), tip, stop)
        except DamagedError as left:
            yield Finding(ref, str(left), is_repaired=False)
        else:
            yield Finding(ref, f"{error}; brought back from {remote}", is_repaired=True)

    def _from_remotes(self, store: Store, ref: str, tip: str = "") -> tuple[str, str]:
        if not is_experiment_ref(ref):  # private refs are never pushed
            return "", ""
        return from_remotes(store, ref, baseline_of(ref), self._places.root, tip)

    def _stop_of(self, ref: str) -> str | None:
        """Return the commit before the first of an experiment or a run."""
        if is_experiment_ref(ref):
            return baseline_of(ref)
        try:
            return load_record(self._places, ref[len(LIVE) :]).parent
        except (FileNotFoundError, DamagedError):
            return None

    def _objects(self, ref: str, tip: str) -> Iterator[Finding]:
        """Look at what each commit names: any of them can be resumed from."""
        store = Store(self._root)
        try:
            commits = commits_between(store, tip, self._stop_of(ref))
            named = {
                key: out for sha in commits for key, (_, out) in named_objects(store, sha).items()
            }
        except DamagedError:
            return  # the history told it
        for (oid, hash_name), out in named.items():
            if self._cache.has(oid, hash_name):  # what is not here may never have been
                yield from self._object(f"{ref}, {out.path}", oid, hash_name)

    def _object(self, where: str, oid: str, hash_name: str) -> Iterator[Finding]:
        yield from self._one(where, oid, hash_name)
        if oid.endswith(".dir") and (oid, hash_name) in self._whole:
            for member in self._cache.members(oid, hash_name).values():
                if self._cache.has(member, hash_name):
                    yield from self._one(where, member, hash_name)

    def _one(self, where: str, oid: str, hash_name: str) -> Iterator[Finding]:
        if (oid, hash_name) in self._whole:
            return
        try:
            self._cache.check(oid, hash_name)
        except DamagedError as damage:
            try:
                self._mend(oid, hash_name)
                self._cache.check(oid, hash_name)
            except DamagedError as exc:
                yield Finding(where, str(exc), is_repaired=False)
                return
            detail = f"{damage}; brought back from the DVC remote"
            yield Finding(where, detail, is_repaired=True)
        self._whole.add((oid, hash_name))
