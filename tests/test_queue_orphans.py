"""Queue tasks whose worker died too: `dvc exp recover` does what the worker would have done."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest
from support import DVC_VERSION, wait_for
from support.queue import Queue, check_partial, kept

pytestmark = pytest.mark.skipif(DVC_VERSION < (3,), reason="the queue's workers are as in DVC 3")


def test_a_finished_run_that_nobody_collected(queue: Queue) -> None:
    """The worker is killed while the run goes on and finishes: it is published as Success."""
    project = queue.project
    queue.put("run")
    queue.start(env={"FIXTURE_PAUSE": "0.5"})
    wait_for(lambda: 1 in project.epochs(), what="the first epoch")
    queue.end_workers()
    wait_for(lambda: not queue.processes(), what="the end of the run")
    assert project.epochs("checkpoint") == [1, 2, 3, 4, 5, 6]
    assert project.exps() == {}
    assert "Recovered 'run': it had finished" in project.dvc("exp", "recover", check=True).stdout
    (row,) = [row for row in project.rows() if row["kind"] == "experiment"]
    assert (row["name"], row["state"], row["error"]) == ("run", "Success", None)
    assert row["metrics"]["metrics.json"]["epoch"] == 6
    assert row["metrics"]["eval.json"]["test_epoch"] == 6
    assert len(project.commits(project.exps()["run"])) == 1
    assert queue.states() == {"run": "Success"}
    assert queue.info("run")["status"] == 6
    assert project.temp_dirs() == []
    assert project.dvc("queue", "logs", "-f", "run").returncode == 0
    assert "There is nothing to recover" in project.dvc("exp", "recover", check=True).stdout


def test_everything_was_killed(queue: Queue) -> None:
    """Worker, runner and trainer die at once: the run is Partial, its task no longer Running."""
    project = queue.project
    queue.put("run")
    follower = project.start("exp", "run", "--run-all", env=project.dying(cause="hang"))
    project.marked_pid()
    victims = [victim for victim in queue.processes() if victim.pid != follower.pid]
    for victim in victims:
        victim.send_signal(signal.SIGKILL)
    psutil.wait_procs(victims, timeout=10)
    assert follower.wait(60) == 255  # plain DVC would follow for ever
    assert "Kept 3 checkpoints of experiment 'run' (Partial): dvc was killed" in follower.text()
    assert kept(project) == [1, 2, 3]
    check_partial(queue, "dvc was killed")
    # a new worker leaves the dead one's task alone
    queue.put("next", options=("-S", "train.epochs=2"))
    queue.start()
    wait_for(lambda: "next" in project.exps(), what="the next run")
    states = queue.states()
    assert states["run"] == "Partial"
    assert states["next"] == "Success"


def test_a_task_that_never_got_set_up(queue: Queue) -> None:
    """One fails at its set-up, one's worker is killed at it: both are Failed."""
    project = queue.project
    queue.put("fails", "killed")
    blocked = project.path / ".git" / "refs" / "exps" / "temp"
    blocked.write_text("no folder", encoding="ascii")  # DVC tries for a second, then gives up
    queue.start()
    (worker,) = wait_for(queue.workers, what="the worker")
    queue.wait(1)
    records = project.path / ".dvc" / "tmp" / "ckpt-recover" / "runs"
    (record,) = wait_for(lambda: list(records.glob("*.json")), what="the second set-up")
    worker.kill()
    worker.wait(10)
    temp_dir = Path(json.loads(record.read_text("utf-8"))["temp_dir"])
    assert temp_dir.is_dir()
    blocked.unlink()
    recovered = project.dvc("exp", "recover", check=True).stdout
    assert "Recovered 'killed': it had kept nothing (dvc was killed)" in recovered
    assert queue.states() == {"fails": "Failed", "killed": "Failed"}
    assert not temp_dir.exists()
    assert project.exps() == {}
    assert [ref for ref in project.refs() if ref.startswith("refs/ckpt-recover")] == []
