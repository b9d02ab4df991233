"""What DVC's queue knows of a task: its log, its process, its result.

A task is called by its stash commit. Its files lie in ``.dvc/tmp/exps/run/<task>/``: the info
file ``.run``, the log ``.out`` and the process ``.json``, the same in all versions seen.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def log_of(infofile: str) -> str:
    """Return the path of the log of the task whose info file is ``infofile``."""
    return os.path.splitext(infofile)[0] + ".out"


def append_to_log(infofile: str, lines: list[str]) -> None:
    """Add lines to a task's log, if it has one. Raises OSError."""
    path = log_of(infofile)
    if os.path.exists(path):
        with open(path, "a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))


def close_task(repo: Any, task: str, *, failed: bool) -> None:  # noqa: ANN401
    """Have the queue know that a task ended whose worker was killed; repeating is fine.

    Only for a task that no worker works on any more: without it the queue lists the task as running
    and whoever follows its log waits for ever.

    Args:
        repo: DVC's ``Repo`` of the main repository.
        task: Its stash commit.
        failed: Whether it did not finish.
    """
    queue = repo.experiments.celery_queue
    process = queue.proc.get(task)
    if process is not None and process.returncode is None:
        process.returncode = -1  # what DVC writes for a process that is gone
        queue.proc[task] = process
    for task_id, entry in _unfinished(queue, task):
        if failed:
            queue.stash_failed(entry)
            queue.celery.backend.mark_as_failure(task_id, None)
        else:
            queue.celery.backend.mark_as_done(task_id, None)


def _unfinished(queue: Any, task: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    from celery.result import AsyncResult

    for message, entry in list(queue._iter_processed()):  # noqa: SLF001
        task_id = message.headers["id"]
        if entry.stash_rev == task and not AsyncResult(task_id, app=queue.celery).ready():
            yield task_id, entry
