"""What `dvc exp show` says of runs that ended, and how their rows are removed."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from typing import TYPE_CHECKING, Any, Callable

import pytest
from support import DVC_VERSION, Project

if TYPE_CHECKING:
    from pathlib import Path

lists = DVC_VERSION >= (2, 55)
SIGKILL = "stage train: signal 9 (SIGKILL)"
EARLY = "stage prepare: exit code 3"


@pytest.fixture(scope="module")
def ended(build_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with three runs: `whole`, `killed` (3 checkpoints) and `early` (none)."""
    folder = tmp_path_factory.mktemp("ended")
    subprocess.run(["cp", "-a", str(build_once()), str(folder / "repo")], check=True)
    project = Project(folder / "repo", folder / "outside")
    project.killed("killed")
    project.killed("early", "-S", "seed=8", stage="prepare", cause="exit3")
    project.dvc("exp", "run", "--temp", "-n", "whole", "-S", "train.lr=0.01", check=True)
    return project


@pytest.fixture
def copied(ended: Project, tmp_path: Path) -> Project:
    """Return a copy of it that a test may change."""
    subprocess.run(["cp", "-a", str(ended.path), str(tmp_path / "repo")], check=True)
    return Project(tmp_path / "repo", tmp_path / "outside")


def table(project: Project, *options: str) -> list[dict[str, str]]:
    """Return the rows of `dvc exp show --csv`, and demand that it says nothing else."""
    done = project.dvc("exp", "show", "--csv", *options, check=True)
    return list(csv.DictReader(io.StringIO(done.stdout)))


def executor_of(project: Project, name: str) -> dict[str, Any]:
    """Return what `--json` says beside the state of an experiment."""
    shown = project.show_json()
    if not lists:
        (row,) = (
            entry["data"]
            for entries in shown.values()
            for rev, entry in entries.items()
            if rev != "baseline" and entry["data"].get("name") == name
        )
        return {**row, "state": row["status"].lower()}
    (found,) = (e for top in shown for e in top["experiments"] or () if e["name"] == name)
    executor: dict[str, Any] = found["executor"]
    return executor


def test_a_killed_run_is_a_tree_of_its_checkpoints(ended: Project) -> None:
    """Three rows, newest first, the first with name and state; the closing commit is none."""
    rows = [row for row in ended.rows() if row["experiment"] == "killed" or row["name"] == "killed"]
    tip = ended.exps()["killed"]
    commits = ended.commits(tip)
    assert [row["rev"] for row in rows] == commits[-2::-1]
    assert [row["metrics"]["metrics.json"]["epoch"] for row in rows] == [3, 2, 1]
    assert [row["name"] for row in rows] == ["killed", None, None]
    assert {row["state"] for row in rows} == {"Partial"}
    assert [row["error"] for row in rows] == [None, None, None]
    executor = executor_of(ended, "killed")
    assert executor["state"] == "partial"
    assert (executor["cause"], executor["stage"], executor["checkpoints"]) == (SIGKILL, "train", 3)
    if lists:
        assert {"name", "local"} <= set(executor)


@pytest.mark.skipif(not lists, reason="DVC before 2.55 calls every commit Success")
def test_a_finished_run_is_dvcs_own_row(ended: Project) -> None:
    """The row of a success is the same with the package turned off."""
    plain = Project(ended.path, ended.outside)
    plain.env["DVC_CKPT_RECOVER"] = "0"
    ours = [row for row in ended.rows() if row["experiment"] == "whole"]
    assert ours == [row for row in plain.rows() if row["experiment"] == "whole"]
    assert ours


def test_a_failed_run_has_its_cause(ended: Project) -> None:
    """It shows name, params and cause, and no metrics, which would be the baseline's."""
    (row,) = (row for row in ended.rows() if row["name"] == "early")
    executor = executor_of(ended, "early")
    assert row["state"] == "Failed"
    assert row["params"]["params.yaml"]["seed"] == 8
    assert row["metrics"] == {}
    assert executor["cause"] == EARLY
    assert EARLY in json.dumps(ended.show_json())
    assert "early" not in [row["name"] for row in ended.rows("--hide-failed")]


def test_all_formats_agree(ended: Project) -> None:
    """CSV, Markdown and the table; sorted by a metric too, which `early` does not have."""
    for options in ([], ["--sort-by", "metrics.json:accuracy"], ["--sort-by", "test_accuracy"]):
        rows = table(ended, *options)
        states = {row["Experiment"]: row["State"] for row in rows if row["Experiment"]}
        assert states["killed"] == "Partial"
        assert states["early"] == "Failed"
        start = [row["Experiment"] for row in rows].index("killed")
        tree = rows[start : start + 3]
        kinds = ["checkpoint_tip", "checkpoint_commit", "checkpoint_base"]
        assert [row["typ"] for row in tree] == kinds
        assert [row["epoch"] for row in tree] == ["3", "2", "1"]
        assert [row["State"] for row in tree] == ["Partial", "", ""]
    for option in ("--md", "--no-pager"):
        shown = ended.dvc("exp", "show", option, check=True).stdout
        assert [sign for sign in ("│ ╓", "│ ╟", "├─╨", "[killed]") if sign not in shown] == []
        assert "!" not in "".join(line for line in shown.splitlines() if "[killed]" in line)


def test_looking_writes_nothing(ended: Project) -> None:
    """Neither a ref nor a file of a run is changed, and nothing is said."""
    before = (ended.refs(), files_of(ended))
    done = ended.dvc("exp", "show", "--json", check=True)
    ended.dvc("queue", "status", check=True)
    assert json.loads(done.stdout)  # nothing was said beside it
    assert (ended.refs(), files_of(ended)) == before


def files_of(project: Project) -> dict[str, bytes]:
    """Return the files of the package and of DVC's temp dirs, with their bytes."""
    tmp = project.path / ".dvc" / "tmp"
    folders = [tmp / "ckpt-recover", tmp / "exps" / "standalone", tmp / "exps" / "run"]
    files = (path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): path.read_bytes() for path in files}


REMOVALS = {
    ("queue", "remove", "early"): {"whole", "killed"},
    ("queue", "remove", "--failed"): {"whole", "killed"},
    ("exp", "remove", "early", "killed"): {"whole"},
    ("exp", "remove", "-A"): set(),
    ("exp", "remove", "--rev", "HEAD"): set(),
}


@pytest.mark.parametrize("command", REMOVALS, ids=" ".join)
def test_removing_a_failed_row_leaves_nothing_of_it(
    copied: Project, command: tuple[str, ...]
) -> None:
    """Its record and refs are gone, and with it only what was named."""
    done = copied.dvc(*command, check=True)
    assert "early" in done.stdout
    assert set(copied.exps()) == REMOVALS[command]
    assert [ref for ref in copied.refs() if "ckpt-recover" in ref] == []
    assert not (copied.path / ".dvc" / "tmp" / "ckpt-recover").exists()


def test_removing_what_is_not_there_removes_nothing(copied: Project) -> None:
    """A wrong name beside a right one is DVC's error, and everything stays."""
    done = copied.dvc("exp", "remove", "early", "nope")
    assert done.returncode != 0
    assert "nope" in done.stdout
    assert "early" in [row["name"] for row in copied.rows()]
    copied.dvc("queue", "remove", "--success", check=True)
    assert "early" in [row["name"] for row in copied.rows()]


def test_a_partial_experiment_that_was_finished_is_a_success(copied: Project) -> None:
    """Only the tip's trailer counts; a closing commit further down is no row."""
    tip = copied.exps()["killed"]
    finished = copied.git("commit-tree", f"{tip}^{{tree}}", "-p", tip, "-m", "finished")
    (ref,) = (ref for ref, sha in copied.refs().items() if sha == tip)
    copied.git("update-ref", ref, finished)
    rows = [row for row in copied.rows() if row["experiment"] == "killed"]
    assert rows[0]["rev"] == finished
    assert tip not in [row["rev"] for row in rows]
    assert rows[0]["state"] in (None, "Success")
    assert "Partial" not in copied.dvc("exp", "show", "--csv", check=True).stdout
