"""`dvc exp recover` after a real death of dvc: nothing that was told to be safe is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from support import DVC_VERSION, Project, Started, wait_for
from support.orphans import DAMAGES, LIVE, Orphan, block_name, link_dir, tear_object

if TYPE_CHECKING:
    from pathlib import Path

native_alike = pytest.mark.skipif(DVC_VERSION < (3,), reason="the same code on all versions")
ACKNOWLEDGED = [1, 2, 3]
"""Epochs whose checkpoint the trainer was told of before the fourth hangs."""


def start(
    project: Project, name: str = "lost", options: tuple[str, ...] = ()
) -> tuple[Started, int]:
    """Start a run that hangs in epoch 4; return its dvc and the trainer's pid."""
    dying = project.dying(cause="hang")
    running = project.start("exp", "run", "--temp", "-n", name, *options, env=dying)
    return running, project.marked_pid()


def killed(project: Project, name: str = "lost") -> None:
    """Leave an orphan: dvc and trainer are killed during epoch 4, at the same moment."""
    running, _ = start(project, name)
    running.signal_group(signal.SIGKILL)
    running.wait()
    project.mark.unlink()


def recover(project: Project, *args: str, code: int = 0) -> dict[str, Any]:
    """Run `dvc exp recover --json`, demand the exit code, and return what it printed."""
    done = project.dvc("exp", "recover", "--json", *args)
    assert done.returncode == code, done.stdout
    start = done.stdout.index("{")
    return json.loads(done.stdout[start : done.stdout.rindex("}") + 1])


def records(project: Project) -> list[Path]:
    """Return the records of runs."""
    return sorted((project.path / ".dvc/tmp/ckpt-recover/runs").glob("*.json"))


def check_partial(project: Project, name: str = "lost") -> None:
    """Check that the experiment has all that was acknowledged, and that nothing else is left."""
    tip = project.exps()[name]
    *checkpoints, closing = project.commits(tip)
    assert "Experiment-Status: partial" in project.git("log", "-1", "--format=%B", closing)
    assert project.git("rev-parse", f"{closing}^{{tree}}") == project.git(
        "rev-parse", f"{checkpoints[-1]}^{{tree}}"
    )
    metrics = [json.loads(project.read(sha, "metrics.json")) for sha in checkpoints]
    assert [found["epoch"] for found in metrics] == ACKNOWLEDGED
    locks = [project.read(sha, "dvc.lock") for sha in checkpoints]
    logged = project.logged("checkpoint")
    assert all(entry["md5"] in lock for entry, lock in zip(logged, locks))
    assert project.temp_dirs() == []
    assert not [ref for ref in project.refs() if "ckpt-recover" in ref]
    assert not (project.path / ".dvc/tmp/ckpt-recover").exists()
    project.git("fsck", "--strict")
    project.dvc("exp", "apply", name, check=True)


def test_the_trainer_goes_on_without_dvc(project: Project) -> None:
    """Untouched while it lives; then the run is published, and a second time does nothing."""
    running, trainer = start(project)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    (alone,) = recover(project, "--list")["runs"]
    assert (alone["state"], alone["name"]) == ("alone", "lost")
    assert recover(project)["runs"] == []
    assert "alive" in recover(project, "lost", code=1)["runs"][0]["error"]
    assert len(project.temp_dirs()) == 1
    assert psutil.pid_exists(trainer)

    os.kill(trainer, signal.SIGKILL)
    wait_for(lambda: recover(project, "--list")["runs"][0]["state"] == "orphan")
    (found,) = recover(project, "--dry-run")["runs"]
    assert found["size"] > 10_000
    assert "Partial" in found["plan"]
    assert len(project.temp_dirs()) == 1
    (done,) = recover(project)["runs"]
    assert done["checkpoints"] == len(ACKNOWLEDGED)
    assert done["cause"] == "dvc was killed"
    assert done["freed"] > 10_000
    check_partial(project)
    assert recover(project) == {"runs": [], "freed": 0}


@pytest.mark.parametrize(
    "removed",
    ["exps", pytest.param("", marks=native_alike)],
    ids=["exps", "all of tmp"],
)
def test_somebody_removed_the_temp_dirs(project: Project, removed: str) -> None:
    """The cure that people are told: what was a ready checkpoint comes back from Git alone."""
    killed(project)
    shutil.rmtree(project.path / ".dvc" / "tmp" / removed)
    (done,) = recover(project)["runs"]
    assert done["name"] == "lost"
    tip = project.exps()["lost"]
    *checkpoints, _ = project.commits(tip)
    epochs = [json.loads(project.read(sha, "metrics.json"))["epoch"] for sha in checkpoints]
    assert epochs == ACKNOWLEDGED[: len(epochs)]
    if removed or DVC_VERSION < (3,):  # else what was only copied aside was removed as well
        assert epochs == ACKNOWLEDGED
    assert epochs
    assert not [ref for ref in project.refs() if "ckpt-recover" in ref]


@native_alike
def test_after_a_restart_the_pid_is_another_program(project: Project) -> None:
    """The boot id differs, and the pid is alive as something else: dead all the same."""
    killed(project)
    (path,) = records(project)
    record = json.loads(path.read_text(encoding="utf-8"))
    record["process"].update(pid=os.getpid(), boot="another boot")
    path.write_text(json.dumps(record), encoding="utf-8")
    (found,) = recover(project, "--list")["runs"]
    assert found["state"] == "orphan"
    recover(project, "lost")
    check_partial(project)


def test_plain_dvc_left_a_temp_dir(project: Project) -> None:
    """Its checkpoints on DVC 2; on DVC 3 there are none, so the finished stage is kept."""
    project.env["DVC_CKPT_RECOVER"] = "0"
    running = project.start(
        "exp", "run", "--temp", "-n", "old", "-S", "seed=8", env=project.dying(cause="hang")
    )
    trainer = project.marked_pid()
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    del project.env["DVC_CKPT_RECOVER"]
    (alive,) = recover(project, "--list")["runs"]
    assert (alive["state"], alive["name"]) == ("alive", "old")
    assert recover(project)["runs"] == []

    os.kill(trainer, signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(trainer))
    empty = project.path / ".dvc/tmp/exps/standalone/tmpempty"
    empty.mkdir()
    os.utime(empty, (0, 0))
    done = {run["name"]: run for run in recover(project)["runs"]}
    assert done["old"]["ended"] == "partial"
    assert done["tmpempty"]["removed"]
    assert not empty.exists()
    *checkpoints, _ = project.commits(project.exps()["old"])
    stages = project.read(checkpoints[-1], "dvc.lock")
    if DVC_VERSION < (3,):
        metrics = [json.loads(project.read(sha, "metrics.json")) for sha in checkpoints]
        assert [found["epoch"] for found in metrics] == ACKNOWLEDGED
    else:
        assert len(checkpoints) == 1
        assert "prepare:" in stages
        assert "train:" not in stages
        assert "metrics.json" not in project.git("ls-tree", "--name-only", checkpoints[0])
    assert project.temp_dirs() == []
    project.git("fsck", "--strict")
    again = project.dvc("exp", "run", "--temp", "-n", "again", check=True)
    assert "again" in again.stdout


def test_a_queue_worker_died_and_the_experiment_finished(project: Project) -> None:
    """Nobody collected it: it is published as what it is, and the queue says so."""
    project.env |= {"DVC_CKPT_RECOVER": "0", "FIXTURE_PAUSE": "0.7"}
    project.dvc("exp", "run", "--queue", "-n", "queued", check=True)
    project.dvc("queue", "start", check=True)
    wait_for(project.epochs)
    (worker,) = (found for found in psutil.process_iter() if is_worker(found, project))
    rest = worker.children(recursive=True)
    worker.kill()
    psutil.wait_procs(rest, timeout=60)
    assert project.exps() == {}
    (left,) = project.temp_dirs()
    os.utime(left, (0, 0))
    del project.env["DVC_CKPT_RECOVER"]
    (done,) = recover(project)["runs"]
    assert (done["name"], done["ended"]) == ("queued", "success")
    assert json.loads(project.read(project.exps()["queued"], "eval.json"))["test_epoch"] == 6
    assert project.temp_dirs() == []
    project.env["DVC_CKPT_RECOVER"] = "0"  # plain DVC understands what is left
    assert "Success" in project.dvc("queue", "status", check=True).stdout
    assert "queued" in {row["name"] for row in project.rows()}


def is_worker(process: psutil.Process, project: Project) -> bool:
    """Return whether it is the project's queue worker."""
    try:
        inside = process.cwd().startswith(str(project.path))
        return inside and "queue-worker" in process.cmdline()
    except psutil.Error:
        return False


def test_the_next_run_recovers_first(project: Project) -> None:
    """One line; not when it is switched off, and never by looking."""
    killed(project)
    off = {"DVC_CKPT_RECOVER_AUTO": "0"}
    project.dvc("exp", "run", "--queue", "-n", "one", env=off, check=True)
    project.rows()
    assert len(project.temp_dirs()) == 1
    done = project.dvc("exp", "run", "--queue", "-n", "two", check=True)
    assert "Recovered 'lost': Partial, 3 checkpoints (dvc was killed)" in done.stdout
    check_partial(project)


def test_gc_spares_the_living_and_the_dead(project: Project) -> None:
    """All that a running experiment has kept is there after `dvc gc`, for its end to publish."""
    running, _ = start(project, options=("-S", "seed=8"))
    live = [ref for ref in project.refs() if "/live/" in ref]
    wait_for(lambda: project.git("rev-list", "--count", f"main..{live[0]}") >= "3")
    project.dvc("gc", "--workspace", "--force", check=True)
    running.signal_group(signal.SIGKILL)
    running.wait()
    project.dvc("gc", "--workspace", "--force", check=True)
    (done,) = recover(project)["runs"]
    assert done["ended"] == "partial"
    tip = project.exps()["lost"]
    project.dvc("exp", "apply", "lost", check=True)  # checks out data and model
    assert "epoch" in project.read(tip, "metrics.json")
    assert (project.path / "data" / "train.npz").exists()
    assert (project.path / "model.pkl").exists()


@native_alike
def test_many_orphans_some_of_them_damaged(project: Project) -> None:
    """Each damage costs its own run and one line, and nothing of it is removed.

    A recovery that is killed, and then two at once, give the same result as one.
    """
    running, _ = start(project)
    (live,) = (ref for ref in project.refs() if ref.startswith(LIVE))
    wait_for(lambda: len(project.commits(live)) == len(ACKNOWLEDGED))
    running.signal_group(signal.SIGKILL)
    running.wait()
    first = Orphan(project, records(project)[0])
    damaged = {damage: first.copy(number) for number, damage in enumerate(DAMAGES)}
    copies = [first.copy(number) for number in range(50, 56)]
    copies[0].path.write_text("{", encoding="utf-8")  # its refs tell enough
    whole = {orphan.name for orphan in (first, *copies)}
    for damage, orphan in damaged.items():
        damage(orphan)

    one = project.start("exp", "recover", "--all")
    wait_for(lambda: len(project.exps()) >= 4, what="the third experiment of this recovery")
    one.kill()
    one.wait()
    two = [project.start("exp", "recover", "--all") for _ in range(2)]
    codes = [started.wait(120) for started in two]
    said = "".join(started.text() for started in two)
    assert codes == [1, 1], said
    blocked = damaged.pop(block_name)
    # These two are in main, but not all of them is proven, or the dir is not DVC's to remove.
    unproven = {damaged[damage].name for damage in (tear_object, link_dir)}
    names = set(project.exps()) - unproven
    assert names == whole | {f"{blocked.name}/other", f"{blocked.name}-partial"}
    for orphan in damaged.values():
        known = f"'{orphan.name}' was not recovered" in said
        assert known or f"'{orphan.run_id}' was not recovered" in said, orphan.name
        assert orphan.temp_dir.exists()
    assert "Traceback" not in said
    assert len(project.temp_dirs()) == len(damaged)


@native_alike
def test_a_run_of_another_host_is_judged_by_its_sign_of_life(project: Project) -> None:
    """Left alone by default; --force takes it once it was silent for two minutes, not before."""
    killed(project)
    (path,) = records(project)
    record = json.loads(path.read_text(encoding="utf-8"))
    record["process"]["host"] = "elsewhere"
    path.write_text(json.dumps(record), encoding="utf-8")
    lease = path.with_suffix(".lease")
    assert recover(project)["runs"] == []
    (refused,) = recover(project, "--force", code=1)["runs"]
    assert "it was alive on the host elsewhere" in refused["error"]
    os.utime(lease, (0, 0))
    (refused,) = recover(project, "lost", code=1)["runs"]
    assert "--force" in refused["error"]
    assert len(project.temp_dirs()) == 1
    recover(project, "lost", "--force")
    check_partial(project)


@native_alike
def test_what_killed_writes_left_is_swept(project: Project) -> None:
    """Old files that were made aside, and what a run without record left; nothing younger."""
    top = project.path / ".dvc" / "tmp" / "ckpt-recover"
    for folder in ("runs", "receipts", ".old.tmp"):
        (top / folder).mkdir(parents=True)
    left = [top / "runs" / name for name in (".a.tmp", "gone.reserve", "gone.lease", ".b.tmp")]
    left.append(top / "receipts" / "gone.json")
    for path in left:
        path.write_text("x", encoding="ascii")
    for path in (left[0], top / ".old.tmp"):
        os.utime(path, (1, 1))
    project.dvc("exp", "recover", check=True)
    assert [path.name for path in top.rglob("*") if path.is_file()] == [".b.tmp"]
    assert not (top / ".old.tmp").exists()


def test_a_run_after_a_power_cut_needs_no_empty_object(project: Project) -> None:
    """Git takes an empty object for the one that it is to write, and the run would be broken."""
    options = ("-S", "train.lr=0.123")
    project.killed("before", *options)
    tip = project.exps()["before"]
    sha = project.git("rev-parse", f"{tip}:./params.yaml")
    project.dvc("exp", "remove", "before", check=True)
    path = project.path / ".git" / "objects" / sha[:2] / sha[2:]
    path.chmod(0o644)
    path.write_bytes(b"")
    done = project.killed("after", *options)
    assert "1 in" in done.stdout, done.stdout
    checkpoints = project.commits(project.exps()["after"])[:-1]
    assert json.loads(project.read(checkpoints[-1], "metrics.json"))["epoch"] == 3
    assert project.git("fsck", "--no-dangling") == ""
