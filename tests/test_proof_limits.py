"""Real limits of the machine: inodes, file sizes, read-only disks, memory, and processes that hang.

Each time: what the trainer was told is kept, the reason is said, and repeating succeeds once the
limit has gone.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import DVC_VERSION, wait_for

from dvc_ckpt_recover.selftest import children, powercut
from dvc_ckpt_recover.selftest import scene as scenes
from dvc_ckpt_recover.selftest.matrix import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support import Project

MEMORY = Path("/sys/fs/cgroup/memory")
needs_cgroup = pytest.mark.skipif(
    not os.access(MEMORY / "memory.limit_in_bytes", os.R_OK) or os.geteuid() != 0,
    reason="no memory cgroup can be made here",
)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no child write a file larger than ``size`` bytes, as ``ulimit -f`` does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def no_inodes(folder: str) -> Iterator[None]:
    """Take all inodes of a disk."""
    top = os.path.join(folder, "taken")
    os.makedirs(top)
    with suppress(OSError):
        for number in range(1_000_000):
            with open(os.path.join(top, str(number)), "wb"):
                pass
    try:
        yield
    finally:
        shutil.rmtree(top)


@contextmanager
def read_only(folder: str) -> Iterator[None]:
    """Make a disk read-only, as ext4 does by itself after an error."""
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)


def check_kept(bench: Bench, outcome: children.Outcome) -> str:
    """Check that the end failed, said why, and lost nothing; return what was said."""
    assert outcome.crash == ""
    assert outcome.errors, outcome.said
    assert bench.oracle.judge() == []
    return "\n".join(outcome.errors)


def check_repeated(bench: Bench) -> None:
    """Check that the next recovery gives what one gives that nothing disturbs."""
    assert children.run(bench.scene, "recover").errors == []
    assert bench.oracle.judge(final=True) == []
    assert bench.oracle.fingerprint() == bench.result


@pytest.mark.parametrize("kind", [scenes.DEAD, scenes.SUCCESS])
@pytest.mark.parametrize("size", [0, 100, 1000])
def test_a_limit_of_file_sizes(kind: str, size: int, tmp_path: Path) -> None:
    """``ulimit -f`` fails a write with EFBIG."""
    bench = Bench(str(tmp_path), kind)
    bench.reset()
    with largest_file(size):
        outcome = children.run(bench.scene, "recover")
    assert outcome.crash == ""
    assert bench.oracle.judge() == []
    assert outcome.errors or size, outcome.said  # 1000 bytes may be enough
    check_repeated(bench)


@pytest.mark.parametrize("kind", [scenes.DEAD, scenes.SUCCESS])
@pytest.mark.parametrize("trouble", [no_inodes, read_only])
def test_a_disk_that_takes_no_files(
    kind: str, trouble: object, disk: powercut.Disk, tmp_path: Path
) -> None:
    """A disk whose inodes are used up, and one that is read-only."""
    bench = powercut.CutBench([disk], str(tmp_path), kind)
    bench.reset()
    with trouble(disk.path):  # type: ignore[operator]
        said = check_kept(bench, children.run(bench.scene, "recover"))
    assert ("inodes" if trouble is no_inodes else "Read-only") in said
    check_repeated(bench)


def test_a_stopped_run_is_alive(tmp_path: Path) -> None:
    """SIGSTOP: hung, not dead. Nobody takes its work away, however long it stands still."""
    bench = Bench(str(tmp_path), scenes.LIVE_RUN)
    bench.reset()
    run = children.Child(bench.scene, "train")
    run.go()
    assert run.readline() == {"staged": 1}
    os.kill(run.pid, signal.SIGSTOP)
    before = bench.oracle.fingerprint(exact=True)
    said = children.run(bench.scene, "recover").said
    assert [line for line in said if "recovered" in line] == []
    assert bench.oracle.fingerprint(exact=True) == before
    os.kill(run.pid, signal.SIGCONT)
    outcome = run.end()
    assert outcome.errors == []
    assert outcome.steps("ready") == {1, 2, 3}
    assert children.run(bench.scene, "recover").errors == []
    assert bench.oracle.judge({1, 2, 3}, final=True) == []


@needs_cgroup
@pytest.mark.skipif(DVC_VERSION < (3,), reason="the same code on all versions")
def test_the_kernel_kills_the_trainer_for_memory(project: Project) -> None:
    """A cgroup's limit: what was finished is there, and the cause names the signal."""
    group = MEMORY / f"ckpt-recover-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text("600M", encoding="ascii")
        words = f"echo $$ > {group}/cgroup.procs; exec dvc exp run --temp -n starved"
        run = project.start_program("sh", "-c", words, env=project.dying(cause="oom-kill"))
        assert run.wait(120) == 255
        assert "signal 9 (SIGKILL)" in run.text()
        tip = project.exps()["starved"]
        epochs = [project.read(sha, "metrics.json") for sha in project.commits(tip)[:-1]]
        assert [json.loads(text)["epoch"] for text in epochs[-3:]] == [1, 2, 3]
        assert project.temp_dirs() == []
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text(), what="an empty cgroup")
        group.rmdir()
