"""What plain DVC does with a killed run, the package being turned off.

These are the facts that the package was written against. One that fails tells that DVC has
changed, and that the package may have less to do, or something else.
"""

from __future__ import annotations

import json
import signal

import pytest
from support import DVC_VERSION, Project

DIED = 255
commits_on_death = DVC_VERSION[:2] == (2, 58)
native_checkpoints = DVC_VERSION < (3,)


def test_a_run_that_succeeds_is_one_experiment(plain_project: Project) -> None:
    """All six epochs are trained, and the tip has the last one's metrics."""
    done = plain_project.dvc("exp", "run", "--temp", "-n", "whole", check=True)
    (row,) = [row for row in plain_project.rows() if row["kind"] == "experiment"]
    assert done.returncode == 0
    assert plain_project.epochs("checkpoint") == [1, 2, 3, 4, 5, 6]
    assert list(plain_project.exps()) == ["whole"]
    assert row["name"] == "whole"
    assert row["metrics"]["metrics.json"]["epoch"] == 6
    assert row["metrics"]["eval.json"]["test_epoch"] == 6


@pytest.mark.skipif(commits_on_death, reason="DVC 2.58 commits a torn state instead")
def test_a_killed_trainer_leaves_nothing(plain_project: Project) -> None:
    """The issue: three checkpoints were made, and temp dir, refs and row are gone."""
    killed = plain_project.killed("lost")
    assert killed.returncode == DIED
    assert plain_project.epochs("checkpoint") == [1, 2, 3]
    assert plain_project.temp_dirs() == []
    assert plain_project.exps() == {}
    assert [row["kind"] for row in plain_project.rows()] == ["workspace", "baseline"]


@pytest.mark.skipif(not commits_on_death, reason="only DVC 2.58 does")
def test_a_killed_trainer_passes_for_a_success(plain_project: Project) -> None:
    """Exit 0, and a fourth commit: the third's model with metrics of the epoch that died."""
    killed = plain_project.killed("torn")
    tip = plain_project.exps()["torn"]
    assert killed.returncode == 0
    assert plain_project.temp_dirs() == []
    assert len(plain_project.commits(tip)) == 4
    third = plain_project.commits(tip)[2]
    assert plain_project.logged()[2]["md5"] in plain_project.read(third, "dvc.lock")
    assert plain_project.read(tip, "dvc.lock") == plain_project.read(third, "dvc.lock")
    assert json.loads(plain_project.read(third, "metrics.json"))["epoch"] == 3
    assert json.loads(plain_project.read(tip, "metrics.json"))["epoch"] == 4


@pytest.mark.parametrize("cause", ["exit3", "exception", "sigint-group"])
@pytest.mark.skipif(commits_on_death, reason="DVC 2.58 commits a torn state instead")
def test_other_deaths_leave_nothing_either(plain_project: Project, cause: str) -> None:
    """How the trainer dies makes no difference."""
    killed = plain_project.killed("lost", cause=cause)
    assert killed.returncode == DIED
    assert plain_project.temp_dirs() == []
    assert plain_project.exps() == {}


def test_a_death_before_training_leaves_nothing(plain_project: Project) -> None:
    """The prepare stage dies: no checkpoint anywhere, a plain failure on all versions."""
    killed = plain_project.killed("early", "-S", "seed=8", stage="prepare")
    assert killed.returncode == DIED
    assert plain_project.epochs() == []
    assert plain_project.exps() == {}


def test_the_table_shows_a_killed_dvc_as_running(plain_project: Project) -> None:
    """Dvc itself is killed with its trainer: the temp dir stays, for ever running.

    DVC 2.31 shows nothing at all, since it takes ended runs for active ones and the reverse.
    """
    running = plain_project.start(
        "exp", "run", "--temp", "-n", "ghost", env=plain_project.dying(cause="hang")
    )
    plain_project.marked_pid()
    running.signal_group(signal.SIGKILL)
    running.wait()
    assert len(plain_project.temp_dirs()) == 1
    assert plain_project.exps() == {}
    states = [row["state"] for row in plain_project.rows() if row["kind"] == "experiment"]
    assert states == ([] if DVC_VERSION < (2, 32) else ["Running"])


@pytest.mark.skipif(not native_checkpoints, reason="removed in DVC 3")
def test_dvc_2_makes_a_commit_for_each_checkpoint(plain_project: Project) -> None:
    """Six checkpoints and the finished pipeline."""
    plain_project.dvc("exp", "run", "--temp", "-n", "whole", check=True)
    assert len(plain_project.commits(plain_project.exps()["whole"])) == 7


@pytest.mark.skipif(native_checkpoints, reason="DVC 2 makes more")
def test_dvc_3_makes_one_commit(plain_project: Project) -> None:
    """Whatever the trainer calls, DVC 3 commits once, at the end."""
    plain_project.dvc("exp", "run", "--temp", "-n", "whole", check=True)
    assert len(plain_project.commits(plain_project.exps()["whole"])) == 1
