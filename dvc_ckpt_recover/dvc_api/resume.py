"""Have DVC run a task that starts from a commit's files, on top of an experiment's branch.

DVC makes its tasks by stashing the workspace; here the stash commit is made by plumbing, so that
the user's workspace, index and HEAD are neither read nor touched. The task is an ordinary one for
DVC: a commit with the parents (head, index) and a message that names head, baseline, experiment
and branch, found through the reflog of a stash ref (``BaseStashQueue._stash_exp``, all versions).
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.dvc_api.lockfile import PIPELINE_NAME
from dvc_ckpt_recover.dvc_api.version import has_native_checkpoints
from dvc_ckpt_recover.errors import NotFoundError, RefusedError
from dvc_ckpt_recover.git.store import BLOB

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dvc_ckpt_recover.git import Store

_OWN_STASH = "refs/ckpt-recover/stash/"


@dataclass(frozen=True)
class Start:
    """What a task starts from.

    Attributes:
        name: The experiment's name.
        branch: Its ref, which the task goes on.
        tip: What the ref points to.
        baseline: The experiment's baseline commit.
        source: Commit whose files it starts from.
    """

    name: str
    branch: str
    tip: str
    baseline: str
    source: str


def params_files(
    repo: Any,  # noqa: ANN401
    store: Store,
    source: str,
    overrides: Iterable[str],
) -> dict[str, bytes]:
    """Return the params files of the commit ``source`` with ``overrides`` applied.

    Args:
        repo: DVC's ``Repo``.
        store: Its Git repository.
        source: The commit.
        overrides: As for ``dvc exp run --set-param``.

    Returns:
        Path relative to the Git root, with ``/`` -> the file's new content.

    Raises:
        NotFoundError: The commit has no such file.
        RefusedError: An override is a sweep or cannot be applied.
    """
    from dvc.utils.cli_parse import to_path_overrides

    changed = {}
    for path, values in to_path_overrides(overrides).items():
        folder, name = os.path.split(os.path.abspath(path))
        repo_path = _repo_path(repo, os.path.join(os.path.realpath(folder), name))
        data = store.file_at(source, repo_path)
        if data is None:
            msg = f"the experiment has no params file {repo_path}"
            raise NotFoundError(msg)
        changed[repo_path] = _override(data, name, values)
    return changed


def _override(data: bytes, name: str, values: list[str]) -> bytes:
    from dvc.exceptions import DvcException
    from dvc.utils.hydra import apply_overrides, to_hydra_overrides

    with tempfile.TemporaryDirectory(prefix="dvc-ckpt-params-") as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        try:
            if any(override.is_sweep_override() for override in to_hydra_overrides(values)):
                msg = f"a run goes on with one value, not with a sweep ({', '.join(values)})"
                raise RefusedError(msg)
            apply_overrides(path, values)
        except DvcException as exc:
            msg = f"{', '.join(values)} cannot be set in {name} ({exc})"
            raise RefusedError(msg) from exc
        with open(path, "rb") as file:
            return file.read()


def _repo_path(repo: Any, path: str) -> str:  # noqa: ANN401
    return os.path.relpath(path, os.path.realpath(repo.scm.root_dir)).replace(os.sep, "/")


def _arguments(repo: Any, start: Start) -> bytes:  # noqa: ANN401
    """Return DVC's packed arguments: all stages, with the environment that it gives to a run."""
    from dvc.repo.experiments.executor.base import BaseExecutor

    env = {"DVC_EXP_BASELINE_REV": start.baseline, "DVC_EXP_NAME": start.name}
    if not has_native_checkpoints():  # DVC 2 listens for its checkpoints below the temp dir's root
        env["DVC_ROOT"] = repo.root_dir
    with tempfile.TemporaryDirectory(prefix="dvc-ckpt-args-") as folder:
        path = os.path.join(folder, "args")
        BaseExecutor.pack_repro_args(path, targets=None, run_env={**_studio(repo), **env})
        with open(path, "rb") as file:
            return file.read()


def _studio(repo: Any) -> dict[str, str]:  # noqa: ANN401
    """Return what DVC hands down for Studio, where this version knows it."""
    from dvc.repo.experiments.queue import base

    if not hasattr(base, "config_to_env"):
        return {}
    config = base.get_studio_config(dvc_studio_config=repo.config.get("studio"))
    return dict(base.config_to_env(config))


def make_task(repo: Any, store: Store, start: Start, changed: dict[str, bytes]) -> str:  # noqa: ANN401
    """Make the stash commit of a task and return its name; no ref points to it yet.

    Args:
        repo: DVC's ``Repo``.
        store: Its Git repository.
        start: What it starts from.
        changed: Files that differ from the start's, by path relative to the Git root.
    """
    from dvc.repo.experiments.executor.base import BaseExecutor

    files = dict(changed)
    args = os.path.join(os.path.realpath(repo.tmp_dir), BaseExecutor.PACKED_ARGS_FILE)
    files[_repo_path(repo, args)] = _arguments(repo, start)
    put = {path: (store.blob(data), BLOB) for path, data in files.items()}
    tree = store.make_tree(start.source, put, set())
    index = store.make_commit(tree, [start.tip], f"index on {start.branch}\n")
    return store.make_commit(tree, [start.tip, index], _message(start))


def _message(start: Start) -> str:
    from dvc.repo.experiments.stash import ExpStash

    message: str = ExpStash.format_message(start.tip, start.baseline, start.name, start.branch)
    return message


def run_in_temp_dir(repo: Any, task: str, start: Start) -> dict[str, str]:  # noqa: ANN401
    """Run a task in a temp dir, now, and wait for its end.

    The task gets a stash ref of its own, so that no other ``dvc exp run`` takes it.

    Returns:
        Commit of the finished experiment -> DVC's hash of it; empty when DVC made none.

    Raises:
        dvc.exceptions.DvcException: The run failed, as in ``dvc exp run --temp``.
    """
    from dvc.repo import lock_repo
    from dvc.repo.experiments.queue.tempdir import TempDirQueue

    if not os.path.exists(PIPELINE_NAME):  # DVC would look for the stages in this folder
        os.chdir(repo.root_dir)
    experiments = repo.experiments
    queue = TempDirQueue(repo, f"{_OWN_STASH}{task[:16]}")
    with lock_repo(repo):
        _push(repo, queue.ref, task, start)
        try:
            results: dict[str, str] = experiments._reproduce_queue(queue)  # noqa: SLF001
        finally:
            queue.clear()
        if results:
            experiments._log_reproduced(results, tmp_dir=True)  # noqa: SLF001
    return results


def _push(repo: Any, ref: str, task: str, start: Start) -> None:  # noqa: ANN401
    repo.scm.set_ref(ref, task, message=f"commit: {_message(start)}")


def put_in_queue(repo: Any, task: str, start: Start) -> None:  # noqa: ANN401
    """Put a task into DVC's queue, for a worker to take."""
    from dvc.repo import lock_repo
    from dvc.repo.experiments.queue.base import QueueEntry
    from dvc.repo.experiments.queue.tasks import run_exp

    queue = repo.experiments.celery_queue
    root = repo.scm.root_dir
    entry = QueueEntry(
        repo.root_dir, root, queue.ref, task, start.baseline, start.branch, start.name, start.tip
    )
    with lock_repo(repo):
        _push(repo, queue.ref, task, start)
        queue.celery.signature(run_exp.s(entry.asdict())).delay()


def queued_branches(repo: Any) -> set[str]:  # noqa: ANN401
    """Return the refs that tasks go on which wait in DVC's queue."""
    return {entry.branch for entry in repo.experiments.celery_queue.iter_queued() if entry.branch}
