"""Tell how a run ended: the user, DVC's records of the run, the log of its task.

Failure rule: what cannot be told is noted; the run's end goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.dvc_api import executors, queue
from dvc_ckpt_recover.reporting import messages
from dvc_ckpt_recover.runs import Ended, Mode

if TYPE_CHECKING:
    from dvc_ckpt_recover.recovery import Ending
    from dvc_ckpt_recover.runs import RunRecord


def tell(record: RunRecord, ending: Ending) -> None:
    """Tell it while DVC lives: at the end of the command, or in the task's and the worker's log."""
    block = messages.of_ending(ending)
    if record.mode != Mode.QUEUE:
        messages.say(block)
        return
    note_in_task(record, ending)
    messages.say_now(block)


def note_in_task(record: RunRecord, ending: Ending) -> None:
    """Have the info file say what became of the run, and the log what was kept."""
    try:
        if ending.ended in (Ended.PARTIAL, Ended.FAILED):
            executors.note_end(record.infofile, success=False)
        elif ending.ref and (ending.wanted or ending.carried):
            executors.set_result_ref(record.infofile, ending.ref)
        if record.infofile:
            queue.append_to_log(record.infofile, messages.of_ending(ending))
    except Exception as exc:  # noqa: BLE001
        failures.note(f"telling how {ending.name} ended", exc)


def tell_later(record: RunRecord, ending: Ending) -> None:
    """Tell it after DVC has died: its info file says now what its own clean-up would have said."""
    if record.mode == Mode.QUEUE:
        note_in_task(record, ending)
    executors.note_end(record.infofile, success=ending.is_success)
