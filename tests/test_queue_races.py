"""Workers beside each other and beside readers: DVC's own races lose nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import DVC_VERSION, Project, wait_for
from support.project import BIN
from support.queue import Queue, kept

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(DVC_VERSION < (3,), reason="the queue's races are as in DVC 3")


def test_a_collection_that_fails_loses_nothing(queue: Queue) -> None:
    """A name is taken, a lock is held, a lock file is broken: each time all is carried over."""
    project = queue.project
    three = ("-S", "train.epochs=3")
    queue.put("same", options=three)
    queue.put("same", options=(*three, "-S", "train.lr=0.01"))
    queue.put("last", options=(*three, "-S", "train.lr=0.03"))
    queue.start(env={"FIXTURE_PAUSE": "0.3"})
    packed = project.path / ".git" / "packed-refs.lock"
    wait_for(lambda: len(project.epochs()) > 3, what="the second run's first epoch")
    packed.touch()
    wait_for(lambda: "carried over as 'same-2'" in queue.worker_log(), 200, "the second run")
    packed.unlink()
    wait_for(lambda: len(project.epochs()) > 6, 200, "the third run")
    (worker,) = queue.workers()
    assert len(open_leases(worker.pid)) == 1  # of the run at hand, none of those before
    rwlock = queue.exps / "rwlock"
    rwlock.write_text("{", encoding="ascii")
    queue.wait(3, 200)
    rwlock.unlink()
    assert queue.worker_log().count("Failed to collect experiment") == 1
    assert sorted(project.exps()) == ["last", "same", "same-2"]
    rows = {row["name"]: row for row in project.rows() if row["kind"] == "experiment"}
    for name, rate in (("same", 0.02), ("same-2", 0.01), ("last", 0.03)):
        assert rows[name]["state"] == "Success"
        assert rows[name]["params"]["params.yaml"]["train"]["lr"] == rate
        assert rows[name]["metrics"]["eval.json"]["test_epoch"] == 3
    logs = "".join(path.with_suffix(".out").read_text("utf-8") for path in queue.infos())
    assert logs.count("DVC lost the experiment; it was carried over as 'same-2'.") == 1
    assert "The name 'same' was taken by another experiment" in logs
    assert project.temp_dirs() == []


def open_leases(pid: int) -> list[str]:
    """Return the leases that a process has open."""
    handles = Path(f"/proc/{pid}/fd").iterdir()
    links = (str(path.readlink()) for path in handles if path.is_symlink())
    return [link for link in links if ".lease" in link]


@contextmanager
def repeated(project: Project, *command: str) -> Iterator[list[str]]:
    """Run a command again and again beside the test; yield what those that failed said."""
    over, failed = threading.Event(), []

    def repeat() -> None:
        while not over.is_set():
            done = subprocess.run(
                command,
                cwd=project.path,
                env=project.environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                failed.append(done.stdout + done.stderr)
            over.wait(0.2)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield failed
    finally:
        over.set()
        thread.join()


def live(queue: Queue, name: str) -> int:
    """Return how many checkpoints a run that lives has in the main repository."""
    task = queue.tasks().get(name)
    for ref, sha in queue.project.refs().items() if task else ():
        if ref.startswith("refs/ckpt-recover/live/") and task[:12] in ref:
            return len(queue.project.commits(sha))
    return 0


@pytest.mark.slow
def test_twelve_runs_on_four_workers(queue: Queue) -> None:
    """A third is killed at random, while the table is read and refs are packed all the time."""
    project = queue.project
    seed = int(os.environ.get("QUEUE_SEED", random.randrange(10**6)))  # noqa: S311
    print("QUEUE_SEED", seed)
    chance = random.Random(seed)  # noqa: S311
    names = [f"run-{number}" for number in range(1, 13)]
    doomed = chance.sample(names, 4)
    fates = {name: {"cause": "sigkill", "at": chance.randint(2, 6)} for name in doomed}
    shot = doomed[0]  # its runner is killed from outside, by pid
    fates[shot]["cause"] = "hang"
    path = project.outside / "fates.json"
    path.write_text(json.dumps(fates), encoding="utf-8")
    rates = ",".join(f"{0.01 + number / 1000:.3f}" for number in range(12))
    queue.put("run", options=("-S", f"train.lr={rates}"))
    show = [str(BIN / "dvc"), "exp", "show", "--json"]
    with repeated(project, *show) as unseen, repeated(project, "git", "pack-refs", "--all"):
        queue.start("-j", "4", env={"FIXTURE_FATES": str(path)})
        wait_for(lambda: live(queue, shot) == fates[shot]["at"] - 1, 600, f"{shot} to hang")
        os.kill(queue.runner(shot), signal.SIGKILL)
        queue.wait(12, 900)
    assert unseen == []
    assert sorted(project.exps()) == sorted(names)
    for name in names:
        if name in doomed:
            assert kept(project, name) == list(range(1, fates[name]["at"]))
        else:
            assert project.commits(project.exps()[name])
            assert '"test_epoch": 6' in project.read(project.exps()[name], "eval.json")
    assert project.temp_dirs() == []
    assert [ref for ref in project.refs() if ref.startswith("refs/ckpt-recover")] == []
    assert project.git("fsck", "--no-dangling") == ""
    rows = [row for row in project.rows() if row["kind"] == "experiment"]
    assert sorted(str(row["name"]) for row in rows) == sorted(names)
    assert {row["name"] for row in rows if row["state"] == "Partial"} == set(doomed)
