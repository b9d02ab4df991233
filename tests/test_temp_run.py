"""`dvc exp run --temp`: what a run finished is in the main repository before its temp dir goes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Callable

import pytest
from ruamel.yaml import YAML
from support import DVC_VERSION, Project, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

native = DVC_VERSION < (3,)


def lock(project: Project, rev: str) -> dict[str, dict[str, object]]:
    """Return the stages in a commit's dvc.lock."""
    return YAML(typ="safe").load(project.read(rev, "dvc.lock"))["stages"]


def cache_path(project: Project, md5: str) -> Path:
    """Return where the DVC cache has an object."""
    top = project.path / ".dvc" / "cache"
    return (top if native else top / "files" / "md5") / md5[:2] / md5[2:]


def out_md5(project: Project, rev: str, stage: str = "train") -> str:
    """Return the hash of a stage's model in a commit's dvc.lock."""
    (out,) = [out for out in lock(project, rev)[stage]["outs"] if out["path"] == "model.pkl"]
    return str(out["md5"])


def leftovers(project: Project) -> list[str]:
    """Return what of ours is left in the repository after everything was published."""
    refs = [ref for ref in project.refs() if "ckpt-recover" in ref]
    folder = project.path / ".dvc" / "tmp" / "ckpt-recover"
    return refs + [str(path) for path in folder.rglob("*")]


def assert_checkpoints(project: Project, name: str, epochs: list[int]) -> list[str]:
    """Check all that a kept experiment promises and return its checkpoints, oldest first."""
    *checkpoints, closing = project.commits(project.exps()[name])
    assert len(checkpoints) == len(epochs)
    parent = project.git("rev-parse", "main")
    written = {entry["epoch"]: entry["md5"] for entry in project.logged()}
    for epoch, sha in zip(epochs, checkpoints):
        assert project.git("rev-parse", f"{sha}^") == parent
        assert json.loads(project.read(sha, "metrics.json"))["epoch"] == epoch
        md5 = out_md5(project, sha)
        assert md5 == written[epoch]
        assert hashlib.md5(cache_path(project, md5).read_bytes()).hexdigest() == md5
        parent = sha
    assert project.git("rev-parse", f"{closing}^{{tree}}") == project.git(
        "rev-parse", f"{parent}^{{tree}}"
    )
    assert "missing" not in project.git("fsck", "--no-dangling")
    return checkpoints


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("sigkill", "signal 9 (SIGKILL)"),
        ("exit3", "exit code 3"),
        ("exception", "exit code 1"),
        ("sigint-group", "signal 2 (SIGINT)"),
    ],
)
def test_a_killed_run_keeps_its_checkpoints(project: Project, cause: str, said: str) -> None:
    """Three checkpoints in main, in order; DVC's error and exit code stay; the temp dir goes."""
    killed = project.killed("dead", cause=cause)
    assert killed.returncode == 255, killed.stdout
    assert "failed to reproduce 'train'" in killed.stdout
    kept = f"Kept 3 checkpoints of experiment 'dead' (Partial): stage train: {said}"
    assert kept in killed.stdout
    assert project.temp_dirs() == []
    assert leftovers(project) == []
    checkpoints = assert_checkpoints(project, "dead", [1, 2, 3])
    for sha in checkpoints:  # evaluate did not start, so the baseline's metrics are not its own
        if not native:
            assert "eval.json" not in project.git("ls-tree", "-r", "--name-only", sha).split()
            assert "evaluate" not in lock(project, sha)
        assert ".dvc/tmp" not in project.git("ls-tree", "-r", "--name-only", sha)
    message = project.git("log", "-1", "--format=%B", project.exps()["dead"])
    assert "Experiment-Status: partial" in message
    assert f"Experiment-Cause: stage train: {said}" in message
    assert "Experiment-Checkpoints: 3" in message


@pytest.mark.parametrize("plain", [False, True], ids=["package", "plain"])
def test_dvc_works_on_what_was_kept(project: Project, plain: bool, tmp_path: Path) -> None:
    """Apply, branch, diff, push, pull and remove work, also once the package is gone."""
    project.killed("dead")
    checkpoints = project.commits(project.exps()["dead"])[:3]
    if plain:
        project.env["DVC_CKPT_RECOVER"] = "0"
    remote, storage = tmp_path / "git", tmp_path / "storage"
    project.git("init", "-q", "--bare", str(remote))
    project.git("remote", "add", "origin", str(remote))
    project.dvc("remote", "add", "-d", "--local", "store", str(storage), check=True)
    project.dvc("exp", "push", "origin", "dead", check=True)
    project.dvc("exp", "branch", "dead", "from-dead", check=True)
    diff = project.dvc("exp", "diff", "main", "dead", "--json", check=True)
    assert '"metrics.json"' in diff.stdout
    project.dvc("exp", "remove", "dead", check=True)
    assert project.exps() == {}
    project.git("branch", "-D", "from-dead")
    shutil.rmtree(project.path / ".dvc" / "cache")
    project.dvc("exp", "pull", "origin", "dead", check=True)
    for sha in checkpoints:  # the outputs of every checkpoint travel, not of the tip only
        assert cache_path(project, out_md5(project, sha)).is_file()
    project.git("checkout", "-q", "--", ".")
    project.dvc("exp", "apply", "dead", check=True)
    model = (project.path / "model.pkl").read_bytes()
    assert hashlib.md5(model).hexdigest() == project.logged()[2]["md5"]


@pytest.mark.parametrize("plain", [False, True], ids=["package", "plain"])
def test_the_stage_that_died_runs_again(project: Project, plain: bool) -> None:
    """After apply it is neither unchanged nor cached, and goes on where it was."""
    project.killed("dead")
    if plain:
        project.env["DVC_CKPT_RECOVER"] = "0"
    project.dvc("exp", "apply", "dead", check=True)
    again = project.dvc("exp", "run", "-n", "again", check=True)
    assert "Running stage 'train'" in again.stdout
    assert "Stage 'train' is cached" not in again.stdout
    assert project.epochs() == [1, 2, 3, 4, 5, 6]


def test_finished_stages_are_kept_when_the_next_dies_at_once(project: Project) -> None:
    """Prepare ran, train died before a checkpoint: Partial with what prepare made."""
    killed = project.killed("dead", "-S", "seed=8", at=1)
    assert "Kept 1 checkpoint of experiment 'dead' (Partial)" in killed.stdout
    checkpoint, closing = project.commits(project.exps()["dead"])
    stages = lock(project, checkpoint)
    assert "train" not in stages
    assert stages["prepare"]["params"]["params.yaml"]["seed"] == 8
    for out in stages["prepare"]["outs"]:
        assert cache_path(project, str(out["md5"])).is_file()
    files = project.git("ls-tree", "-r", "--name-only", closing).split()
    assert "metrics.json" not in files
    assert "eval.json" not in files
    assert project.temp_dirs() == []


def test_a_run_that_kept_nothing_is_failed(project: Project) -> None:
    """Prepare died: no experiment, and the message says why."""
    killed = project.killed("dead", "-S", "seed=8", stage="prepare")
    assert killed.returncode == 255
    assert "'dead' failed and left no checkpoint: stage prepare: signal 9" in killed.stdout
    assert project.exps() == {}
    assert project.temp_dirs() == []


def test_a_successful_run_is_as_with_plain_dvc(make_project: Callable[..., Project]) -> None:
    """The same tree, parent, refs and row; nothing of ours is left."""
    ours, plain = make_project(), make_project()
    plain.env["DVC_CKPT_RECOVER"] = "0"
    shown = []
    for project in (ours, plain):
        done = project.dvc("exp", "run", "--temp", "-n", "whole", check=True)
        assert "Kept" not in done.stdout
        tip = project.exps()["whole"]
        (row,) = [row for row in project.rows() if row["kind"] == "experiment"]
        row = {key: value for key, value in row.items() if key not in ("rev", "baseline")}
        parents = [project.git("log", "-1", "--format=%s", f"{tip}^")]
        tree = project.git("rev-parse", f"{tip}^{{tree}}")
        refs = {ref.split("/")[-1] for ref in project.refs()}
        message = project.git("log", "-1", "--format=%B", tip)
        shown.append((tree, parents, refs, row, message, sorted(project.temp_dirs())))
    assert shown[0] == shown[1]
    assert leftovers(ours) == []


@pytest.mark.skipif(DVC_VERSION < (2, 58), reason="DVC 2.31 cannot set up a run in a shallow clone")
def test_an_experiment_that_dvc_loses_in_a_shallow_clone(project: Project, tmp_path: Path) -> None:
    """DVC's fetch fails on the missing parent and it says success: ours is in main."""
    clone = tmp_path / "clone"
    project.git("clone", "-q", "--depth", "1", f"file://{project.path}", str(clone))
    shutil.copytree(project.path / ".dvc" / "cache", clone / ".dvc" / "cache")
    shallow = Project(clone, tmp_path / "shallow")
    shallow.git("config", "user.name", "Fixture")
    shallow.git("config", "user.email", "fixture@example.com")
    shallow.dvc("exp", "run", "--temp", "-n", "whole")
    assert list(shallow.exps()) == ["whole"]
    tip = shallow.exps()["whole"]
    assert json.loads(shallow.read(tip, "eval.json"))["test_epoch"] == 6
    assert shallow.temp_dirs() == []
    shallow.end_all()


def test_a_name_taken_meanwhile(project: Project) -> None:
    """The other experiment stays, ours gets a free name, and both are said."""
    running = project.start("exp", "run", "--temp", "-n", "twice", env={"FIXTURE_PAUSE": "0.3"})
    wait_for(lambda: project.epochs("checkpoint"), what="the first checkpoint")
    main = project.git("rev-parse", "main")
    tree = project.git("rev-parse", "main^{tree}")
    other = project.git("commit-tree", tree, "-p", main, "-m", "another")
    project.git("update-ref", f"refs/exps/{main[:2]}/{main[2:]}/twice", other)
    running.wait(120)
    if native and project.exps()["twice"] != other:  # DVC 2 itself overwrites the other
        assert json.loads(project.read(project.exps()["twice"], "metrics.json"))["epoch"] == 6
        return
    assert project.exps()["twice"] == other
    (name,) = set(project.exps()) - {"twice"}
    assert json.loads(project.read(project.exps()[name], "metrics.json"))["epoch"] == 6
    assert f"carried over as '{name}'" in running.text()
    assert "The name 'twice' was taken" in running.text()


def test_four_runs_at_once(project: Project) -> None:
    """Two die and two live; nothing is mixed."""
    runs = {}
    for number, dies in enumerate([True, False, True, False]):
        env = {
            "FIXTURE_LOG": str(project.outside / f"log{number}"),
            "FIXTURE_MARK": str(project.outside / f"mark{number}"),
            "FIXTURE_PAUSE": "1",
            **(project.dying(at=4) if dies else {}),
        }
        name, options = f"run{number}", ("-S", f"train.lr=0.0{number + 1}")
        runs[name] = (dies, project.start("exp", "run", "--temp", "-n", name, *options, env=env))
        log = Path(env["FIXTURE_LOG"])  # DVC itself refuses to set up two runs at one moment
        wait_for(log.exists, what=f"the first epoch of {name}")
    for number, (name, (dies, run)) in enumerate(runs.items()):
        code = run.wait(180)
        assert (code != 0) == dies, run.text()
        tip = project.exps()[name]
        assert f"lr: 0.0{number + 1}" in project.read(tip, "params.yaml")
        last = 3 if dies else 6
        assert json.loads(project.read(tip, "metrics.json"))["epoch"] == last
        message = project.git("log", "-1", "--format=%B", tip)
        assert ("Experiment-Status: partial" in message) == dies
        log = project.outside / f"log{number}"
        written = [json.loads(line) for line in log.read_text().splitlines()]
        assert out_md5(project, tip) in [e["md5"] for e in written if e["epoch"] == last]
    assert leftovers(project) == []


def test_a_project_in_a_subfolder_with_spaces_and_a_linked_cache(
    make_project: Callable[..., Project], tmp_path: Path
) -> None:
    """The lock file and the outputs are found below the Git root; the cache lies elsewhere."""
    project = make_project(subdir="my project")
    cache = project.path / ".dvc" / "cache"
    shutil.move(str(cache), str(tmp_path / "cache far away"))
    cache.symlink_to(tmp_path / "cache far away")
    project.dvc("config", "cache.type", "symlink", check=True)
    project.git("commit", "-qam", "Link outputs")
    project.killed("dead")
    assert_checkpoints(project, "dead", [1, 2, 3])
    assert project.temp_dirs() == []
    assert leftovers(project) == []


def kill_marked(project: Project) -> None:
    """Kill the trainer that hangs."""
    os.kill(project.marked_pid(), signal.SIGKILL)


def start_hanging(project: Project) -> object:
    """Start a run that hangs in epoch 4 and wait until it does."""
    running = project.start("exp", "run", "--temp", "-n", "dead", env=project.dying(cause="hang"))
    project.marked_pid()
    return running


def test_a_damaged_record(project: Project) -> None:
    """One line says so, the temp dir stays, and the checkpoints are safe in main."""
    running = start_hanging(project)
    (record,) = (project.path / ".dvc/tmp/ckpt-recover/runs").glob("*.json")
    record.write_text("{ not JSON")
    kill_marked(project)
    assert running.wait(120) == 255
    assert "is not JSON" in running.text() or "Kept 3 checkpoints" in running.text()
    live = [sha for ref, sha in project.refs().items() if "/live/" in ref or "/exps/" in ref]
    assert len(project.commits(live[0])) >= 3
    assert project.rows()


def test_a_temp_dir_without_git(project: Project) -> None:
    """The checkpoints are in main already; DVC's own error is not hidden."""
    running = start_hanging(project)
    (temp_dir,) = project.temp_dirs()
    shutil.rmtree(temp_dir / ".git")
    kill_marked(project)
    running.wait(120)
    assert_checkpoints(project, "dead", [1, 2, 3])
    assert project.git("rev-parse", "HEAD") == project.git("rev-parse", "main")


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], None]]:
    """Return a function that makes a folder read-only for everybody, root included."""
    mounted: list[Path] = []

    def make(folder: Path) -> None:
        place = str(folder)
        for command in (["--bind", place, place], ["-o", "remount,ro,bind", place]):
            if subprocess.run(["mount", *command], check=False, capture_output=True).returncode:
                pytest.skip("this machine allows no bind mounts")
            if folder not in mounted:
                mounted.append(folder)

    yield make
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=False, capture_output=True)


@pytest.mark.skipif(native, reason="DVC 2 makes its checkpoints itself")
def test_what_could_not_be_stored_is_tried_again_at_the_end(
    project: Project, read_only: Callable[[Path], None]
) -> None:
    """The trainer was told that its bytes are safe, so the newest stays until it can be stored."""
    dying = {**project.dying(), "FIXTURE_PAUSE": "1"}
    running = project.start("exp", "run", "--temp", "-n", "dead", env=dying)
    wait_for(project.live_commits, what="the first checkpoint")
    read_only(project.path / ".git" / "refs")
    assert running.wait(120) == 255
    assert "Nothing was removed" in running.text()
    subprocess.run(["umount", str(project.path / ".git" / "refs")], check=True)
    recovered = project.dvc("exp", "recover")
    assert recovered.returncode == 0, recovered.stdout
    *_, newest, _closing = project.commits(project.exps()["dead"])
    assert json.loads(project.read(newest, "metrics.json"))["epoch"] == 3
    assert project.temp_dirs() == []
    assert leftovers(project) == []


def test_a_read_only_main_repository(project: Project, read_only: Callable[[Path], None]) -> None:
    """Nothing can be published, so the temp dir stays and the reason is said."""
    running = start_hanging(project)
    wait_for(lambda: len(project.live_commits()) == 3, what="three ready checkpoints")
    read_only(project.path / ".git" / "refs")
    kill_marked(project)
    assert running.wait(120) == 255
    assert "Nothing was removed" in running.text()
    assert len(project.temp_dirs()) == 1
    assert len(project.live_commits()) == 3
