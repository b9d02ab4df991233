"""`dvc exp resume`: the trainer goes on where it died, and ends where it would have ended."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Callable

import pytest
from support import DVC_VERSION, Project

if TYPE_CHECKING:
    from pathlib import Path

DIED = 255
NATIVE = DVC_VERSION < (3,)


@pytest.fixture(scope="session")
def whole(
    build_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """Return what the trainer logs at the end of each epoch of a run that nobody kills."""
    folder = tmp_path_factory.mktemp("whole")
    subprocess.run(["cp", "-a", str(build_once()), str(folder / "repo")], check=True)
    project = Project(folder / "repo", folder / "outside")
    project.dvc("exp", "run", "--temp", "-n", "whole", check=True)
    return project.logged()


@pytest.fixture(scope="session")
def killed_once(build_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a project whose experiment ``one`` was killed in its third epoch."""
    folder = tmp_path_factory.mktemp("killed")
    subprocess.run(["cp", "-a", str(build_once()), str(folder / "repo")], check=True)
    project = Project(folder / "repo", folder / "outside")
    assert project.killed("one", at=3).returncode == DIED
    assert project.epochs("checkpoint") == [1, 2]
    return folder


@pytest.fixture
def killed(killed_once: Path, tmp_path: Path) -> Project:
    """Return a copy of that project, with the trainer's log."""
    shutil.rmtree(tmp_path)
    subprocess.run(["cp", "-a", str(killed_once), str(tmp_path)], check=True)
    return Project(tmp_path / "repo", tmp_path / "outside")


def hashes(entries: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Return epoch and hash of the model for each line of the trainer's log."""
    return [(entry["epoch"], entry["md5"]) for entry in entries]


def model_in_cache(project: Project, md5: str) -> Path:
    """Return the path of a model in the DVC cache, in the layout of this version."""
    cache = project.path / ".dvc" / "cache"
    return (cache if NATIVE else cache / "files" / "md5") / md5[:2] / md5[2:]


def tree_of(project: Project) -> tuple[str, ...]:
    """Return what must not change in the user's workspace: HEAD, index, status, files."""
    return (
        project.git("rev-parse", "HEAD"),
        project.git("diff", "--cached"),
        project.git("diff"),
        project.git("status", "--porcelain"),
        project.git("stash", "list"),
    )


def test_it_goes_on_and_ends_as_if_nobody_had_killed_it(
    killed: Project, whole: list[dict[str, Any]]
) -> None:
    """No epoch is lost or trained twice, and what the user has in hand is not mixed in."""
    params = killed.path / "params.yaml"
    params.write_text(params.read_text().replace("lr: 0.02", "lr: 0.5"))
    (killed.path / "note.txt").write_text("untracked")
    (killed.path / "staged.txt").write_text("staged")
    killed.git("add", "staged.txt")
    partial, before = killed.exps()["one"], tree_of(killed)

    done = killed.dvc("exp", "resume", "one", check=True)

    assert hashes(killed.logged()) == hashes(whole)
    tip = killed.exps()["one"]
    assert list(killed.exps()) == ["one"]
    assert killed.git("merge-base", partial, tip).strip() == partial
    assert whole[-1]["md5"] in killed.read(tip, "dvc.lock")
    assert "unfinished" not in killed.read(tip, "dvc.lock")
    assert json.loads(killed.read(tip, "eval.json"))["test_epoch"] == 6
    assert "lr: 0.02" in killed.read(tip, "params.yaml")
    assert "Going on with experiment 'one' from checkpoint 2" in done.stdout
    assert "Ran experiment(s): one" in done.stdout
    assert done.stdout.count("Running stage 'prepare'") == 0
    assert tree_of(killed) == before
    assert killed.temp_dirs() == []
    assert "ckpt-recover" not in killed.git("for-each-ref")
    row = next(row for row in killed.rows() if row["name"] == "one")
    assert row["state"] in (None, "Success")
    again = killed.dvc("exp", "resume", "one")
    assert again.returncode == 6
    assert "is finished" in again.stdout


def test_killed_three_times_and_resumed_three_times(
    project: Project, whole: list[dict[str, Any]]
) -> None:
    """Each death leaves a partial experiment with more checkpoints, of the same name."""
    seed = random.randrange(10**6)  # noqa: S311
    print("seed", seed)
    deaths = sorted(random.Random(seed).sample(range(2, 7), 3))  # noqa: S311
    assert project.killed("again", at=deaths[0]).returncode == DIED
    for death in deaths[1:]:
        died = project.dvc("exp", "resume", env=project.dying(at=death))
        assert died.returncode == DIED
        assert f"Kept {death - 1} checkpoint" in died.stdout
    tips = project.commits(project.exps()["again"])
    project.dvc("exp", "resume", check=True)
    assert hashes(project.logged()) == hashes(whole)
    assert list(project.exps()) == ["again"]
    assert project.commits(project.exps()["again"])[: len(tips)] == tips
