"""Repair what a power cut left empty: refs, from the commits that are still there, and objects.

Failure rule: a ref that is not damaged is never touched; what cannot be repaired is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.errors import DamagedError, RecoverError, UnsafeError
from dvc_ckpt_recover.git import LIVE, RUNS, Refs, Store, closing_of, verify_history
from dvc_ckpt_recover.model import CheckpointNote
from dvc_ckpt_recover.model.trailers import experiment_in

if TYPE_CHECKING:
    import pygit2

    from dvc_ckpt_recover.runs import RunRecord

_COMMIT = 1


def drop_empty_objects(root: str) -> None:
    """Remove the empty Git objects of the repository ``root``, and say how many there were.

    Plain DVC and Git sync nothing, so that a power cut leaves some of theirs even where all of
    ours is whole; Git would never write them again.
    """
    try:
        dropped = Store(root).drop_empty()
    except (RecoverError, OSError) as exc:
        failures.note("looking for Git objects that a power cut left empty", exc)
        return
    if dropped:
        error = DamagedError(f"{len(dropped)} in {root} were removed")
        failures.note("Git objects that a power cut left empty", error)


def find_tip(store: Store, parent: str, name: str | None) -> str | None:
    """Return the newest whole commit of ours that follows ``parent``, whatever names it.

    Args:
        store: The main repository; all of its objects are looked at.
        parent: The commit that the first checkpoint follows.
        name: The experiment's name, as in the commits' subjects.
    """
    found: dict[str, pygit2.Commit] = {}
    for oid in store.repo:
        try:
            if store.read(str(oid))[0] != _COMMIT:
                continue
            commit = store.commit(str(oid))
        except DamagedError:
            continue
        else:
            is_ours = CheckpointNote.read(commit.message) or closing_of(store, str(oid))
            if is_ours and experiment_in(commit.message) == name:
                found[str(oid)] = commit
    ranked = sorted(found, key=lambda sha: (_length(found, sha, parent), sha), reverse=True)
    for sha in ranked:
        if _length(found, sha, parent):
            try:
                verify_history(store, sha, parent)
            except DamagedError:
                continue
            return sha
    return None


def _length(found: dict[str, pygit2.Commit], sha: str, parent: str) -> int:
    """Return how many commits of ours lie between ``sha`` and ``parent``; 0 if it is not behind."""
    count = 0
    while sha in found:
        count += 1
        above = found[sha].parent_ids
        sha = str(above[0]) if above else ""
    return count if sha == parent else 0


def mend_run(store: Store, record: RunRecord) -> list[str]:
    """Repair the private refs of a run; its lease must be held.

    Returns:
        The refs that were repaired.

    Raises:
        DamagedError: One cannot be repaired: nothing that it may have named is there.
    """
    refs, mended = Refs(store), []
    for ref in (RUNS + record.run_id, LIVE + record.run_id):
        try:
            refs.get(ref)
            continue
        except DamagedError as exc:
            known = ref.startswith(RUNS) and store.has(record.stash_rev)
            sha = record.stash_rev if known else find_tip(store, record.parent, record.name)
            if sha is None:
                todo = f"if the run had no checkpoint yet, remove the ref's file and repeat ({exc})"
                msg = f"the ref {ref} is damaged and no commit of its run is there"
                raise DamagedError(msg, todo=todo) from exc
        refs.mend(ref, sha)
        mended.append(ref)
        failures.note("a damaged ref was repaired", UnsafeError(f"{ref} names {sha[:7]} again"))
    return mended
