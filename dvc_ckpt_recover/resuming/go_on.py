"""Start DVC on a chosen checkpoint, and give its stage what it needs to go on.

The task starts from the checkpoint's files on top of the branch's tip, so the branch only moves
forward, also when an older checkpoint was chosen: the experiment then goes on from there, and what
was not taken stays in its history.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.dvc_api import lockfile, resume
from dvc_ckpt_recover.dvc_api.cache import clone_or_copy
from dvc_ckpt_recover.dvc_api.version import has_native_checkpoints
from dvc_ckpt_recover.git import Store, checkpoints_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dvc_ckpt_recover.dvc_api.stages import OutView, StageView
    from dvc_ckpt_recover.resuming.choose import Choice
    from dvc_ckpt_recover.resuming.partial import Partial
    from dvc_ckpt_recover.runs import RunRecord

ENV_NUMBER = "DVC_CHECKPOINT_RESUME"
"""Number of the checkpoint that a stage goes on from."""
ENV_DVCLIVE = "DVCLIVE_RESUME"
"""Tells DVCLive to go on counting from the metrics that are there."""


def prepare(
    repo: Any,  # noqa: ANN401
    store: Store,
    partial: Partial,
    choice: Choice,
    overrides: Iterable[str],
) -> tuple[str, resume.Start]:
    """Make DVC's task for a chosen checkpoint; no ref is moved.

    Args:
        repo: DVC's ``Repo``.
        store: The main repository.
        partial: The experiment.
        choice: The checkpoint.
        overrides: As for ``dvc exp run --set-param``.

    Returns:
        The task's stash commit and what it starts from.

    Raises:
        NotFoundError: There is no params file as in ``overrides``.
        RefusedError: They cannot be applied.
    """
    start = resume.Start(partial.name, partial.ref, partial.tip, partial.baseline, choice.sha)
    changed = resume.params_files(repo, store, choice.sha, overrides)
    return resume.make_task(repo, store, start, changed), start


def number_for(record: RunRecord, stage: StageView) -> int | None:
    """Return the number of the checkpoint that a stage goes on from, None for one that starts."""
    store = Store(record.main_root)
    entry = _lock_entry(store, record.stash_rev, stage)
    number = lockfile.unfinished_number(entry)
    if number is None and has_native_checkpoints() and record.branch and entry.get("outs"):
        resumable = any(out.resumable for out in stage.outs)
        return len(checkpoints_of(store, record.parent, record.baseline)) if resumable else None
    return number


def _lock_entry(store: Store, commit: str, stage: StageView) -> dict[str, Any]:
    path, name = stage.key
    data = store.file_at(commit, path)
    stages = lockfile.parse(data, path).get("stages") if data else None
    return dict((stages or {}).get(name) or {})


def environment(number: int) -> dict[str, str]:
    """Return what a stage that goes on finds in its environment."""
    return {ENV_NUMBER: str(number), ENV_DVCLIVE: "1"}


def bring_back(record: RunRecord, stage: StageView, cache: Any) -> None:  # noqa: ANN401
    """Give a stage its metrics and plots back, which DVC removes before it starts.

    Args:
        record: The run, whose stash commit holds the files.
        stage: The stage that is about to start.
        cache: The project's DVC cache.

    Raises:
        DamagedError: An object cannot be read.
        OSError: A file cannot be written.
    """
    store = Store(record.main_root)
    entry = _lock_entry(store, record.stash_rev, stage)
    locked = {out.path: out for out in lockfile.locked_outs({"stages": {"": entry}})}
    for out in stage.outs:
        if os.path.lexists(out.path):
            continue
        if not out.cached:
            _write_tracked(store, record.stash_rev, out)
        elif out.shown and out.def_path in locked:
            held = locked[out.def_path]
            _write_cached(cache, held.oid, held.hash_name, out.path)


def _write_tracked(store: Store, commit: str, out: OutView) -> None:
    for path, data in store.files_below(commit, out.repo_path).items():
        below = path[len(out.repo_path) :].strip("/")
        target = os.path.join(out.path, *below.split("/")) if below else out.path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)


def _write_cached(cache: Any, oid: str, hash_name: str, target: str) -> None:  # noqa: ANN401
    files = cache.members(oid, hash_name) if oid.endswith(".dir") else {"": oid}
    for name, member in files.items():
        path = os.path.join(target, *name.split("/")) if name else target
        os.makedirs(os.path.dirname(path), exist_ok=True)
        clone_or_copy(cache.path(member, hash_name), path)
        os.chmod(path, 0o644)
