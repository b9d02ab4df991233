"""What DVC's queue knows of a task: its log, its process, its result.

A task is called by its stash commit. Its files lie in ``.dvc/tmp/exps/run/<task>/``: the info
file ``.run``, the log ``.out`` and the process ``.json``, the same in all versions seen.
"""

from __future__ import annotations

import locale
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLL = 0.5


@dataclass(frozen=True)
class Task:
    """One task of the queue.

    Attributes:
        rev: DVC's name of it, its stash commit.
        name: The experiment's name, or the start of ``rev``.
        infofile: Its info file; it may not be there.
        dvc_tmp: The project's ``.dvc/tmp``.
        main_root: Work tree of the main Git repository.
    """

    rev: str
    name: str
    infofile: str
    dvc_tmp: str
    main_root: str


def task_of(queue: Any, entry: Any) -> Task:  # noqa: ANN401
    """Return the task that DVC's ``QueueEntry`` names."""
    rev = str(entry.stash_rev)
    return Task(
        rev=rev,
        name=entry.name or rev[:7],
        infofile=str(queue.get_infofile_path(rev)),
        dvc_tmp=str(queue.repo.tmp_dir),
        main_root=str(queue.scm.root_dir),
    )


def follow(queue: Any, task: Task, encoding: str | None, is_over: Callable[[bool], bool]) -> None:  # noqa: ANN401
    """Write a task's log until nobody adds to it any more.

    Args:
        queue: DVC's ``LocalCeleryQueue``.
        task: The task, which was started.
        encoding: Of the log; the system's by default.
        is_over: Told whether DVC knows that the run's process ended, returns whether all did.
    """
    from dvc.ui import ui

    path = queue.proc[task.rev].stdout
    if path is None:
        return
    encoding = encoding or locale.getpreferredencoding()
    with open(path, encoding=encoding, errors="replace") as log:
        while True:
            over = is_over(_has_ended(queue, task.rev))  # asked before the last look
            text = log.read()
            if text:
                ui.write(text, end="")
            elif over:
                return
            else:
                time.sleep(_POLL)


def _has_ended(queue: Any, rev: str) -> bool:  # noqa: ANN401
    process = queue.proc.get(rev)
    return process is None or process.returncode is not None


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
