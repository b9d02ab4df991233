"""Runs in the workspace itself, without ``--temp``: the same checkpoints, nothing touched."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from support import DVC_VERSION, Project, wait_for
from support.tiny import cached, steps

if TYPE_CHECKING:
    from typing import Callable

pytestmark = pytest.mark.skipif(
    DVC_VERSION < (3,), reason="DVC 2 commits its checkpoints in the workspace itself"
)
TRAINER = """
from dvc_ckpt_recover import make_checkpoint
for step in range(model() + 1, model() + 4):
    save(step)
    make_checkpoint()
dying = os.environ.get("DIE", "")
if dying:
    Path("model").write_text("torn")
if dying == "both":
    os.kill(DVC_PID, signal.SIGKILL)
if dying:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def ours(project: Project) -> list[str]:
    """Return what is left of our own: refs and files."""
    files = (project.path / ".dvc" / "tmp" / "ckpt-recover").glob("*/*")
    return [ref for ref in project.refs() if "ckpt-recover" in ref] + [str(path) for path in files]


def test_a_killed_trainer_leaves_a_partial_experiment(tiny: Callable[..., Project]) -> None:
    """Its checkpoints are an experiment; the workspace is as DVC left it; a success is DVC's."""
    project = tiny(TRAINER)
    head = project.git("rev-parse", "main")
    done = project.dvc("exp", "run", "-n", "here", env={"DIE": "trainer"})
    assert done.returncode == 255
    assert "Kept 3 checkpoints of experiment 'here' (Partial)" in done.stdout
    tip = project.exps()["here"]
    assert steps(project, tip) == [1, 2, 3]
    assert cached(project, tip).read_text() == "3"
    assert (project.path / "model").read_text() == "torn"
    assert project.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert project.git("rev-parse", "HEAD") == head
    assert ours(project) == []
    (row,) = [row for row in project.rows() if row["kind"] == "experiment"]
    assert row["metrics"]["metrics.json"] == {"step": 3}
    project.dvc("exp", "apply", "here", check=True)
    project.dvc("exp", "run", "-n", "whole", check=True)
    whole = project.exps()["whole"]
    assert cached(project, whole).read_text() == "6"
    assert len(project.commits(whole)) == 1
    assert ours(project) == []


def test_a_killed_dvc_is_recovered(tiny: Callable[..., Project]) -> None:
    """Dvc and trainer die together; the recovery makes the experiment and touches no file."""
    project = tiny(TRAINER)
    project.dvc("exp", "run", "-n", "both", env={"DIE": "both"})
    assert project.exps() == {}
    done = project.dvc("exp", "recover", check=True)
    assert "both" in done.stdout
    assert steps(project, project.exps()["both"]) == [1, 2, 3]
    assert (project.path / "model").read_text() == "torn"
    assert ours(project) == []


def test_a_running_one_shows_its_checkpoints(tiny: Callable[..., Project]) -> None:
    """As a run in a temp dir does: newest first, below the row that says Running."""
    project = tiny(TRAINER + "signal.pause()\n")
    running = project.start("exp", "run", "-n", "here")
    wait_for(lambda: len(project.live_commits()) == 3, what="the third checkpoint")
    tip, *below = [row for row in project.rows() if row["kind"] in ("experiment", "checkpoint")]
    assert tip["state"] == "Running"
    assert tip["name"] == "here"
    assert [row["rev"] for row in below] == project.live_commits()[::-1]
    assert [row["metrics"]["metrics.json"]["step"] for row in below] == [3, 2, 1]
    shown = project.dvc("exp", "show", check=True).stdout
    assert shown.count("Running") == 1
    running.signal_group(signal.SIGINT)
    assert running.wait(60)
