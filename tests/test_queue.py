"""Queued runs that die, with real workers: what they finished is kept, and their row is Partial."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from support import DVC_VERSION, Project, wait_for
from support.queue import Queue, check_partial, kept

if TYPE_CHECKING:
    from collections.abc import Callable

HANG = Project.dying(cause="hang")
DVC_IS_POLITE = DVC_VERSION >= (2, 58)
"""Whether ``dvc queue kill`` interrupts; before, it kills the runner alone."""

SALVAGES = DVC_VERSION >= (3,)
"""Whether what a trainer left whole without a checkpoint is kept as an unproven one."""


def test_a_killed_trainer(queue: Queue) -> None:
    """Three checkpoints are kept; the next task of the same worker is none the worse for it."""
    queue.put("run")
    queue.start(env=Project.dying())
    queue.wait(1)
    assert kept(queue.project) == [1, 2, 3]
    check_partial(queue, "stage train: signal 9 (SIGKILL)")
    assert queue.worker_log().count("Kept 3 checkpoints of experiment 'run'") == 1


def hanging(queue: Queue, **env: str) -> int:
    """Start a run whose trainer hangs in its fourth epoch and return the trainer's pid."""
    queue.put("run")
    queue.start(env={**HANG, **env})
    trainer = queue.project.marked_pid()
    wait_for(lambda: len(queue.project.live_commits()) == 3, what="the third checkpoint")
    return trainer


def test_a_polite_kill_waits_for_the_last_checkpoint(queue: Queue) -> None:
    """The trainer takes two seconds to save what it has, and that is kept too."""
    hanging(queue, FIXTURE_LAST_WORDS="2")
    queue.project.dvc("queue", "kill", "run", check=True)
    queue.wait(1)
    if DVC_IS_POLITE:
        assert kept(queue.project) == [1, 2, 3, 4]
        check_partial(queue, "stage train: signal 2 (SIGINT)")
    else:  # its runner is dead already when the trainer hears of it
        assert kept(queue.project) == [1, 2, 3]
        check_partial(queue, "dvc was killed")
    assert queue.project.epochs("epoch") == [1, 2, 3, 4]


def force(queue: Queue) -> None:
    """Kill the runner with DVC's own command."""
    queue.project.dvc("queue", "kill", "--force", "run", check=True)


def stop(queue: Queue) -> None:
    """Stop the worker and kill its run."""
    queue.project.dvc("queue", "stop", "--kill", check=True)


def kill_runner(queue: Queue) -> None:
    """Kill the runner as the kernel would."""
    os.kill(queue.runner("run"), signal.SIGKILL)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(
            force, marks=pytest.mark.skipif(DVC_VERSION < (2, 58), reason="DVC has no --force")
        ),
        stop,
        kill_runner,
    ],
)
def test_a_trainer_that_outlives_its_runner(queue: Queue, end: Callable[[Queue], None]) -> None:
    """It is ended politely, its last words waited for within reason, before its dir goes."""
    stubborn = end is stop
    words = {"FIXTURE_LAST_WORDS": "60", "DVC_CKPT_RECOVER_GRACE": "1"}
    trainer = hanging(queue, **(words if stubborn else {"FIXTURE_LAST_WORDS": "1"}))
    follower = queue.project.start("queue", "logs", "-f", "run")
    wait_for(lambda: "epoch 3" in follower.text(), what="the log")
    end(queue)
    queue.wait(1)
    assert queue.project.epochs("epoch") == ([1, 2, 3] if stubborn else [1, 2, 3, 4])
    wait_for(lambda: trainer not in [each.pid for each in queue.processes()], what="its end")
    salvaged = SALVAGES and not stubborn  # no dvc was there to take a checkpoint
    assert kept(queue.project) == ([1, 2, 3, 4] if salvaged else [1, 2, 3])
    check_partial(queue, "dvc was killed")
    assert follower.wait(60) == 255
    count = 4 if salvaged else 3
    assert f"Kept {count} checkpoints of experiment 'run' (Partial)" in follower.text()


def test_following_ends_with_what_was_kept(queue: Queue) -> None:
    """``--run-all`` shows each log up to what was kept, sums up, and fails as a run does."""
    project = queue.project
    queue.put("dies")
    queue.put("lives", options=("-S", "train.epochs=3"))
    if DVC_IS_POLITE:
        queue.put("early", options=("-C", "nowhere"))  # fails before any stage
    done = project.dvc("exp", "run", "--run-all", env=project.dying(), timeout=250)
    queue.wait(3 if DVC_IS_POLITE else 2)
    assert done.returncode == 255
    assert list(project.exps()) == ["dies", "lives"]
    kept_text = "(Partial): stage train: signal 9 (SIGKILL)"
    log, _, end = done.stdout.partition("Ran experiment(s):")
    assert f"Kept 3 checkpoints of experiment 'dies' {kept_text}" in log
    assert "experiments did not finish:" in end
    assert f"  dies: kept 3 checkpoints {kept_text}" in end
    followed = project.dvc("queue", "logs", "-f", "dies")
    assert followed.returncode == 255
    assert f"Kept 3 checkpoints of experiment 'dies' {kept_text}" in followed.stdout
    assert "did not finish" not in followed.stdout
    assert project.dvc("queue", "logs", "-f", "lives").returncode == 0
    states = queue.states()
    assert states["dies"] == "Partial"
    assert states["lives"] == "Success"
    if DVC_IS_POLITE:
        assert states["early"] == "Failed"
        assert "  early: left no checkpoint; see: dvc queue logs early" in end
        assert "Unable to copy" in queue.log("early")
        assert "'early' failed and left no checkpoint" in queue.log("early")
    assert project.temp_dirs() == []
