"""The parts of taking checkpoints whose timing no real run can show: budget, places, joining."""

from __future__ import annotations

import threading

import pytest
from support import wait_for

from dvc_ckpt_recover.checkpointing.budget import Budget
from dvc_ckpt_recover.checkpointing.joining import Joined
from dvc_ckpt_recover.checkpointing.storing import Storer
from dvc_ckpt_recover.settings import StageSettings


def test_the_budget_counts_from_the_start_of_the_stage() -> None:
    """The first is free; one of 2 s at 5 % allows the next after 80 s; each third call may."""
    now = [100.0]
    budget = Budget(StageSettings(budget=0.05, every=3), lambda: now[0])
    assert [budget.allows(call) for call in (1, 2, 3)] == [False, False, True]
    budget.used(3, 2.0)
    assert (budget.again_in(), budget.again_after()) == (80.0, 6)
    now[0] += 79
    assert not budget.allows(6)
    now[0] += 1
    assert not budget.allows(5)
    assert budget.allows(6)
    assert not Budget(StageSettings(budget=0)).allows(1)


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"budget": 2}, "budget must be a number from 0 to 1"),
        ({"every": 0}, "every must be a whole number from 1"),
        ({"keep": True}, "keep must be a whole number from 1, not True; nothing is used"),
        ({"salvage": "no"}, "salvage must be true or false"),
        ({"budgets": 1}, "no key 'budgets' (there are: budget, every, keep, salvage)"),
        ("often", "must be a mapping, not 'often'"),
    ],
)
def test_a_wrong_setting_is_one_line_and_counts_as_not_said(said: object, wrong: str) -> None:
    """A slip of the pen never stops a training."""
    found, lines = StageSettings.read({"checkpoint": said})
    assert found == StageSettings()
    assert len(lines) == 1
    assert wrong in lines[0]
    good = {"budget": 0.5, "every": 2, "keep": 3, "salvage": False}
    assert StageSettings.read({"checkpoint": good}) == (StageSettings(0.5, 2, 3, salvage=False), ())


class SlowCommitter:
    """Stores one thing each time it is let."""

    def __init__(self) -> None:
        """Store nothing yet."""
        self.may = threading.Semaphore(0)
        self.done: list[object] = []

    def commit(self, staged: object) -> None:
        """Wait, and note it."""
        self.may.acquire()
        self.done.append(staged)


def test_two_are_in_flight_at_most() -> None:
    """The third caller waits until the first is stored; ends are told in order."""
    committer = SlowCommitter()
    storer = Storer(committer, lambda *_: None)  # type: ignore[arg-type]
    tickets = []
    placed = threading.Event()

    def third() -> None:
        storer.take_place()
        placed.set()

    for staged in ("a", "b"):
        storer.take_place()
        tickets.append(storer.submit(staged))  # type: ignore[arg-type]
    thread = threading.Thread(target=third)
    thread.start()
    assert not placed.wait(0.2)
    committer.may.release()
    assert placed.wait(10)
    assert tickets[0].wait() is None
    committer.may.release()
    storer.finish()
    thread.join()
    assert committer.done == ["a", "b"]


def test_callers_that_come_during_a_snapshot_share_the_next() -> None:
    """Ten callers, two snapshots: the one that ran, and one that started after all had called."""
    started, go_on = threading.Semaphore(0), threading.Semaphore(0)
    count: list[int] = []

    def snapshot() -> int:
        count.append(len(count))
        started.release()
        go_on.acquire()
        return count[-1]

    joined = Joined(lambda: None, snapshot)
    values: list[int] = []
    callers = [threading.Thread(target=lambda: values.append(joined.ask())) for _ in range(10)]
    callers[0].start()
    started.acquire()
    for caller in callers[1:]:
        caller.start()
    wait_for(lambda: joined._next is not None and threading.active_count() > 10)  # noqa: SLF001
    go_on.release()
    go_on.release()
    for caller in callers:
        caller.join(10)
    assert sorted(values) == [0] + [1] * 9
