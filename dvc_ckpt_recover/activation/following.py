"""Handler for following a queue task: it ends with what was kept, and fails if the run did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.dvc_api import queue
from dvc_ckpt_recover.dvc_api.executors import read_info
from dvc_ckpt_recover.git import Store, partial_of_task
from dvc_ckpt_recover.reporting import messages
from dvc_ckpt_recover.runs import Lease, Places, load_all

if TYPE_CHECKING:
    from dvc_ckpt_recover.dvc_api.queue import Task
    from dvc_ckpt_recover.patching import Call, Steps

_followed: list[tuple[Task, bool]] = []
"""The tasks that this command followed to their end, and whether each finished."""


def follow(call: Call) -> Steps:
    """Around ``LocalCeleryQueue.follow``: go on until the clean-up is through, not only the run."""
    task = queue.task_of(call["self"], call["entry"])
    places = Places(task.dvc_tmp)

    def instead(*_: Any, **__: Any) -> None:  # noqa: ANN401
        queue.follow(
            call["self"], task, call["encoding"], lambda ended: _is_over(places, task, ended)
        )

    outcome = yield instead
    if outcome.error is None:
        info = read_info(task.infofile)
        _followed.append((task, info is not None and info.has_result))


def _is_over(places: Places, task: Task, ended: bool) -> bool:  # noqa: FBT001
    """Return whether nobody works on the task any more: its worker brings in what it kept."""
    records = [record for record in load_all(places)[0] if record.stash_rev == task.rev]
    if any(Lease(places, record.run_id).is_held() for record in records):
        return False
    return ended or bool(records)


def failed_to_finish() -> bool:
    """Return whether a run that was followed did not finish, and say which when there were more."""
    unfinished = [task for task, finished in _followed if not finished]
    if unfinished and len(_followed) > 1:
        store = Store(unfinished[0].main_root)
        notes = [(task.name, partial_of_task(store, task.rev)) for task in unfinished]
        messages.say(messages.of_followed(notes, len(_followed)))
    _followed.clear()
    return bool(unfinished)
