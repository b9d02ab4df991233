"""Handler for following a queue task: it ends with what was kept, and fails if the run did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.activation.recovering import Recovery
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

_running_all: list[bool] = []
"""Not empty while a command follows in order to run."""


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
        _look_after(call["self"], places, task)
        info = read_info(task.infofile)
        _followed.append((task, info is not None and info.has_result))


def run_all(call: Call) -> Steps:  # noqa: ARG001
    """Around ``Experiments.reproduce_celery``: it follows in order to have the runs done."""
    _running_all.append(True)
    yield
    _running_all.clear()


def _look_after(queue_: Any, places: Places, task: Task) -> None:  # noqa: ANN401
    """Do for a run whose worker died what that would have done, or say how; DVC waits for ever."""
    records = [record for record in load_all(places)[0] if record.stash_rev == task.rev]
    if any(record.ended for record in records) or not records:
        return
    if not _running_all:
        lines = [f"What '{task.name}' kept has not been brought in.", "  dvc exp recover"]
        messages.say(["", *lines])
        return
    recovery = Recovery(queue_.repo)
    for facts in recovery.runs():
        if facts.record is not None and facts.record.stash_rev == task.rev:
            recovered = recovery.recover(facts)
            if recovered.ending is not None:
                messages.say(messages.of_ending(recovered.ending))


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
