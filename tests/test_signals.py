"""SIGTERM and SIGHUP to dvc during a run: the trainer gets them, and what it finished is kept."""

from __future__ import annotations

import json
import os
import signal
import time

import psutil
import pytest
from support import DVC_VERSION, Project, Started, wait_for
from support.project import BIN

native = DVC_VERSION < (3,)


def start(project: Project, cause: str, *, at: int = 4, torn: bool = True, **env: str) -> Started:
    """Start a run whose trainer hangs in epoch ``at``, and wait for that."""
    dying = project.dying(cause=cause, at=at, torn=torn)
    running = project.start("exp", "run", "--temp", "-n", "ended", env={**dying, **env})
    project.marked_pid()
    return running


def end(running: Started, number: int, timeout: float = 30) -> float:
    """Send a signal to dvc alone, wait for its end, check its code, and return the seconds."""
    began = time.monotonic()
    os.kill(running.pid, number)
    assert running.wait(timeout) == 128 + number, running.text()
    return time.monotonic() - began


def epochs(project: Project, name: str = "ended") -> list[int]:
    """Return the epochs of an experiment's checkpoints."""
    *checkpoints, _closing = project.commits(project.exps()[name])
    return [json.loads(project.read(sha, "metrics.json"))["epoch"] for sha in checkpoints]


def cause(project: Project) -> str:
    """Return why the experiment ended, as its tip says."""
    message = project.git("log", "-1", "--format=%B", project.exps()["ended"])
    lines = dict(line.partition(": ")[::2] for line in message.splitlines())
    return lines["Experiment-Cause"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_during_an_epoch(project: Project, name: str) -> None:
    """It ends the trainer, the checkpoints are published, and the exit code is 128 plus it."""
    running = start(project, "hang")
    trainer = project.marked_pid()
    number = signal.Signals[name]
    end(running, number)
    assert epochs(project) == [1, 2, 3]
    assert cause(project) == f"stage train: signal {number.value} ({name})"
    assert project.temp_dirs() == []
    assert not psutil.pid_exists(trainer)
    assert "Kept 3 checkpoints" in running.text()


@pytest.mark.skipif(native, reason="the same code on all versions")
def test_a_trainer_that_does_not_listen_is_killed_after_the_grace_time(project: Project) -> None:
    """Not before; and nothing that was kept is lost."""
    running = start(project, "deaf", DVC_CKPT_RECOVER_GRACE="2")
    assert 2 <= end(running, signal.SIGTERM) < 15
    assert epochs(project) == [1, 2, 3]
    assert "SIGTERM" in cause(project)


@pytest.mark.skipif(native, reason="the same code on all versions")
def test_a_second_signal_shortens_the_wait_only(project: Project) -> None:
    """The trainer is killed at once; the pipeline runs to its end."""
    running = start(project, "deaf", DVC_CKPT_RECOVER_GRACE="60")
    os.kill(running.pid, signal.SIGTERM)
    wait_for(lambda: "the stage gets 60 s" in running.text())
    assert end(running, signal.SIGTERM) < 20
    assert epochs(project) == [1, 2, 3]
    assert project.temp_dirs() == []


def test_a_trainer_that_ends_in_good_order_has_not_finished(project: Project) -> None:
    """Exit code 0 after SIGTERM: its state is kept, and the stage must run again."""
    running = start(project, "polite", torn=False)
    end(running, signal.SIGTERM)
    # On DVC 3 what it left is a checkpoint too: metrics of epoch 4, model as it was.
    assert epochs(project) == ([1, 2, 3] if native else [1, 2, 3, 4])
    assert "SIGTERM" in cause(project)
    project.dvc("exp", "apply", "ended", check=True)
    again = project.dvc("exp", "run", "--temp", "-n", "again", check=True)
    assert "Running stage 'train'" in again.stdout


@pytest.mark.skipif(native, reason="the same code on all versions")
def test_a_signal_during_set_up_starts_no_stage(project: Project) -> None:
    """It waits until dvc is in a state to end in good order, and no command is started."""
    dying = project.dying(cause="hang", at=1)
    running = project.start("exp", "run", "--temp", "-n", "ended", env=dying)
    folder = project.path / ".dvc/tmp/ckpt-recover/runs"
    wait_for(lambda: list(folder.glob("*.json")))
    end(running, signal.SIGTERM)
    assert project.epochs() == []
    assert project.exps() == {}
    assert project.temp_dirs() == []
    assert not [ref for ref in project.refs() if "live" in ref]


def test_a_signal_while_a_dead_run_is_saved(project: Project) -> None:
    """The trainer is killed, and dvc gets SIGTERM at that moment: the pipeline is not cut short."""
    running = start(project, "hang")
    os.kill(project.marked_pid(), signal.SIGKILL)
    end(running, signal.SIGTERM)
    assert epochs(project) == [1, 2, 3]
    assert project.temp_dirs() == []


@pytest.mark.skipif(native, reason="the same code on all versions")
def test_sigterm_and_then_sigkill(project: Project) -> None:
    """As schedulers do it: the deaf trainer goes on alone, and a recovery brings all of it in."""
    running = start(project, "deaf")
    trainer = project.marked_pid()
    os.kill(running.pid, signal.SIGTERM)
    wait_for(lambda: "the stage gets 10 s" in running.text())
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    os.kill(trainer, signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(trainer))
    project.dvc("exp", "recover", "ended", check=True)
    assert epochs(project) == [1, 2, 3]
    assert project.temp_dirs() == []


@pytest.mark.skipif(native, reason="the same code on all versions")
def test_nohup_stays_in_force(project: Project) -> None:
    """A hang-up that is ignored does not end the run."""
    command = ("nohup", str(BIN / "dvc"), "exp", "run", "--temp", "-n", "whole")
    running = project.start_program(*command, env={"FIXTURE_PAUSE": "0.3"})
    wait_for(project.epochs)
    os.kill(running.pid, signal.SIGHUP)
    assert running.wait(60) == 0, running.text()
    assert "whole" in project.exps()
