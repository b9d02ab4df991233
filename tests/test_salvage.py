"""What a dead trainer left is kept when it is whole, named when it is not, and gone on from."""

from __future__ import annotations

import signal

import pytest
from support import DVC_VERSION, Project
from support.mini import dies, run

NATIVE = DVC_VERSION < (3,)
own_checkpoints = pytest.mark.skipif(NATIVE, reason="DVC 2 makes the checkpoints itself")


def messages(project: Project, name: str) -> str:
    """Return the commit messages of an experiment, newest first."""
    return project.git("log", "--format=%B", f"main..{project.exps()[name]}")


@own_checkpoints
def test_a_trainer_without_any_call_goes_on_from_what_it_left(mini: Project) -> None:
    """One unproven checkpoint; metrics, plots and the best value so far are there again."""
    said = run(mini, "one", dies(3, "whole"))
    assert "Kept 1 checkpoint of experiment 'one'" in said
    assert "taken after the trainer died" in said
    assert "Checkpoint-State: unproven" in messages(mini, "one")
    done = mini.dvc("exp", "resume", check=True)
    assert "from checkpoint 1" in done.stdout
    assert "unproven" in done.stdout
    first, second = mini.logged("start")
    assert (first["there"], first["number"], first["live"]) == ([], None, None)
    assert second["there"] == ["state.pkl", "metrics.json", "plots"]
    assert (second["number"], second["live"]) == ("1", "1")
    assert mini.epochs() == [1, 2, 4]
    (row,) = [row for row in mini.rows() if row["name"] == "one"]
    assert row["metrics"]["metrics.json"] == {"epoch": 4, "loss": 3, "best": 1}
    assert row["state"] in (None, "Success")
    mini.dvc("exp", "apply", "one", check=True)
    lines = (mini.path / "plots" / "loss.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["1", "2", "3", "4"]


def test_a_large_file_torn_in_place_is_never_offered(mini: Project) -> None:
    """50 MB, half written: the checkpoint before is used, and the torn file is named."""
    said = run(mini, "big", dies(3, "torn", calls=True, pad=50_000_000))
    assert "Kept 2 checkpoints" in said
    if not NATIVE:
        assert "state.pkl: cannot be proven whole" in said
    assert "unproven" not in messages(mini, "big")
    mini.dvc("exp", "resume", "big", env={"MINI_CALL": "1"}, check=True)
    assert mini.epochs() == [1, 2, 3, 4]


@own_checkpoints
def test_torn_and_whole_outputs_without_a_checkpoint(mini: Project) -> None:
    """The whole one is kept, for want of better, and never gone on from unasked."""
    said = run(mini, "half", dies(2, "torn"))
    assert "Kept 1 checkpoint of experiment 'half'" in said
    assert "Checkpoint-Torn: state.pkl" in messages(mini, "half")
    tip = mini.exps()["half"]
    assert "extra.json" in mini.read(tip, "dvc.lock")
    assert "state.pkl" not in mini.read(tip, "dvc.lock")
    refused = mini.dvc("exp", "resume", "half")
    assert refused.returncode == 3
    assert "state.pkl was torn" in refused.stdout
    mini.dvc("exp", "resume", "half", "--from", tip, check=True)
    assert mini.epochs() == [1, 1, 2, 3, 4]


@own_checkpoints
def test_salvage_can_be_switched_off(mini: Project) -> None:
    """`meta: {checkpoint: {salvage: false}}`: nothing was asked for, so nothing is kept."""
    pipeline = mini.path / "dvc.yaml"
    meta = "    meta: {checkpoint: {salvage: false}}\n    deps:"
    pipeline.write_text(pipeline.read_text().replace("    deps:", meta))
    said = run(mini, "off", dies(3, "whole"))
    assert "failed and left no checkpoint" in said
    assert mini.exps() == {}


@own_checkpoints
def test_what_was_left_when_dvc_died_too_is_recovered(mini: Project) -> None:
    """The stage's outputs are known to whoever recovers the run."""
    env = {**dies(2, "whole"), "MINI_HANG": "1"}
    running = mini.start("exp", "run", "--temp", "-n", "orphan", env=env)
    mini.marked_pid()
    running.signal_group(signal.SIGKILL)
    running.wait()
    done = mini.dvc("exp", "resume", "orphan", check=True)
    assert "Recovered 'orphan'" in done.stdout
    assert "Checkpoint-State: unproven" in messages(mini, "orphan")
    assert mini.epochs() == [1, 3, 4]
    assert mini.temp_dirs() == []
