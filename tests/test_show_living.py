"""What `dvc exp show` says of runs that live, or whose dvc died."""

from __future__ import annotations

import csv
import io
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import DVC_VERSION, Project, Started, wait_for
from support.queue import Queue

lists = DVC_VERSION >= (2, 55)
HINT = "dvc exp recover"


def table(project: Project) -> tuple[list[dict[str, str]], str]:
    """Return the rows of the experiments in `dvc exp show --csv`, and what it says beside them."""
    done = project.dvc("exp", "show", "--csv", check=True)
    lines = done.stdout.splitlines()
    wide = [line for line in lines if line.count(",") >= 8]
    rows = [row for row in csv.DictReader(io.StringIO("\n".join(wide))) if row["typ"] != "baseline"]
    return rows, "\n".join(line for line in lines if line not in wide)


def executor(project: Project) -> dict[str, Any]:
    """Return what `--json` says beside the state of the one experiment."""
    shown = project.show_json()
    if lists:
        (found,) = (exp for top in shown for exp in top["experiments"] or ())
        told: dict[str, Any] = found["executor"]
        return told
    tip = next(
        entry["data"]
        for entries in shown.values()
        for rev, entry in entries.items()
        if rev != "baseline" and entry["data"].get("name") == "run"
    )
    return {**tip, "state": tip["status"].lower(), "name": tip["executor"]}


def start_hanging(project: Project) -> tuple[Started, int]:
    """Start a run whose trainer hangs in epoch 4; return it and the trainer's pid."""
    running = project.start("exp", "run", "--temp", "-n", "run", env=project.dying(cause="hang"))
    trainer = project.marked_pid()
    wait_for(lambda: len(project.live_commits()) == 3, what="the third checkpoint")
    return running, trainer


def kill(pid: int) -> None:
    """Kill a process and wait until it is no more than a zombie."""
    process = psutil.Process(pid)
    process.kill()
    wait_for(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def epochs(rows: list[dict[str, str]]) -> list[str]:
    """Return the epochs of the checkpoint rows; the row of a running temp dir is left out."""
    return [row["epoch"] for row in rows if row["Created"]]


def test_a_run_from_life_to_death(project: Project) -> None:
    """Running with its checkpoints, then without dvc, then Partial; never two rows of one name."""
    running, trainer = start_hanging(project)
    refs = project.refs()
    rows, said = table(project)
    assert [row["Experiment"] for row in rows] == ["run"] + [""] * (len(rows) - 1)
    assert rows[0]["State"] == "Running"
    assert epochs(rows) == ["3", "2", "1"]
    assert said == ""

    kill(running.pid)
    running.wait()
    rows, _ = table(project)
    assert rows[0]["State"] == "Running"
    assert "without dvc" in rows[0]["Executor"]
    assert epochs(rows) == ["3", "2", "1"]
    told = executor(project)
    assert (told["state"], told["checkpoints"]) == ("running", 3)
    assert "dvc is dead" in told["cause"]

    kill(trainer)
    for gone in (None, ".dvc/tmp/exps", ".dvc/tmp"):
        if gone:
            shutil.rmtree(project.path / gone)
        rows, said = table(project)
        assert [row["Experiment"] for row in rows] == ["run", "", ""], gone
        assert [row["State"] for row in rows] == ["Partial", "", ""]
        assert epochs(rows) == ["3", "2", "1"]
        assert said.count("\n") == 0
        assert HINT in said
    told = executor(project)
    assert (told["state"], told["cause"], told["checkpoints"]) == ("partial", "dvc was killed", 3)
    assert project.refs() == refs  # nothing was fetched, moved or removed by looking


def test_an_orphan_without_checkpoints_is_failed(project: Project) -> None:
    """Dvc is killed with its first stage: nothing was kept, so that it is Failed, with the hint."""
    env = project.dying(cause="hang", stage="prepare")
    running = project.start("exp", "run", "--temp", "-n", "run", "-S", "seed=8", env=env)
    project.marked_pid()
    running.signal_group(signal.SIGKILL)
    running.wait()
    (row,), said = table(project)
    assert (row["Experiment"], row["State"], row["epoch"]) == ("run", "Failed", "")
    assert HINT in said
    assert executor(project)["cause"] == "dvc was killed"


@pytest.mark.skipif(
    DVC_VERSION < (2, 32), reason="DVC 2.31 never lists a run in a temp dir as running"
)
def test_a_ghost_of_plain_dvc_is_not_running(project: Project) -> None:
    """Without a record, a run is alive exactly while a process works in its temp dir."""
    env = {**project.dying(cause="hang"), "DVC_CKPT_RECOVER": "0"}
    running = project.start("exp", "run", "--temp", "-n", "run", env=env)
    project.marked_pid()
    (row, *_), said = table(project)
    name = "run" if lists else ""  # DVC's own row, which has no name before 2.55
    assert (row["Experiment"], row["State"]) == (name, "Running")
    assert said == ""
    running.signal_group(signal.SIGKILL)
    running.wait()
    (row, *_), said = table(project)
    assert row["Experiment"] == "run"
    assert row["State"] in ("Failed", "Partial")
    assert HINT in said


def test_a_partial_task_is_one_row(queue: Queue) -> None:
    """Partial in both tables, with its process; its removals do what they say."""
    project = queue.project
    queue.put("run")
    rows, _ = table(project)
    assert [row["State"] for row in rows] == ["Queued"]
    queue.start(env=Project.dying())
    queue.wait(1)
    task = queue.tasks()["run"]
    rows, said = table(project)  # DVC may have cached that it was queued
    assert [row["Experiment"] for row in rows] == ["run", "", ""]
    assert [row["State"] for row in rows] == ["Partial", "", ""]
    assert rows[0]["Executor"].lower() == "dvc-task"
    assert said == ""
    told = executor(project)
    assert (told["state"], told["name"], told["checkpoints"]) == ("partial", "dvc-task", 3)
    assert told["local"]["task_id"] == task
    assert told["local"]["returncode"] != 0
    assert told["local"]["pid"] > 0
    assert Path(told["local"]["log"]).is_file()
    assert queue.states() == {"run": "Partial"}
    assert "epoch 3" in project.dvc("queue", "logs", "run", check=True).stdout

    whole = project.path.parent / "whole"
    shutil.copytree(project.path, whole, symlinks=True)
    project.dvc("queue", "remove", "--success", check=True)
    assert queue.states() == {"run": "Partial"}
    assert "run" in project.dvc("queue", "remove", "--failed", check=True).stdout
    assert queue.states() == {}
    rows, _ = table(project)
    assert [row["State"] for row in rows] == ["Partial", "", ""]
    assert list(project.exps()) == ["run"]

    other = Project(whole, project.outside)
    assert "run" in other.dvc("exp", "remove", "run", check=True).stdout
    assert other.exps() == {}
    assert table(other)[0] == []
    assert Queue(other).states() == {}
