"""Power cuts in real runs: the repository lies on a disk that goes down while dvc and trainer work.

Plain DVC syncs nothing, so its own files may be empty afterwards; what counts is that each
checkpoint is there for which ``make_checkpoint(wait=True)`` had returned.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import DVC_VERSION, wait_for
from support.tiny import build_tiny, cached, told

if TYPE_CHECKING:
    from support import Project

    from dvc_ckpt_recover.selftest import powercut

CUTS = int(os.environ.get("POWER_CUTS", "12"))
SEED = int(os.environ.get("POWER_SEED", "1"))
pytestmark = [
    pytest.mark.proof,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(DVC_VERSION < (3,), reason="DVC 2 makes its checkpoints without a sync"),
]
TRAINER = """
from dvc_ckpt_recover import make_checkpoint
for step in range(1, 40):
    save(step)
    Path("model").write_text(f"{step}" * 1000)
    if make_checkpoint(wait=True):
        tell(step=step)
    time.sleep(0.05)
os.kill(os.getpid(), signal.SIGKILL)
"""


def cut(project: Project, disk: powercut.Disk, name: str, chance: random.Random) -> None:
    """Start a run and cut the power at a random moment of it, or of its end."""
    running = project.start("exp", "run", "--temp", "-n", name)
    wait_for(lambda: told(project), what="the first checkpoint")
    time.sleep(chance.uniform(0, 5))
    disk.go_down()
    running.signal_group(signal.SIGKILL)
    running.wait()
    wait_for(lambda: came_back(disk), what="a disk that nobody uses")


def came_back(disk: powercut.Disk) -> bool:
    """Return whether the disk could be mounted again."""
    with suppress(OSError):
        disk.unmount()
        disk.mount()
        return True
    return False


def test_what_was_waited_for_survives(disk: powercut.Disk, tmp_path: Path) -> None:
    """Each step that was told, with its bytes; nothing empty is trusted; a second time is idle."""
    chance = random.Random(SEED)  # noqa: S311 - repeatable
    print(f"seed {SEED}, {CUTS} cuts")
    folder = Path(disk.path) / "project"
    folder.mkdir()
    project = build_tiny(folder, TRAINER)
    project.outside = tmp_path / "outside"
    project.outside.mkdir()
    project.env["FIXTURE_LOG"] = str(project.outside / "log.jsonl")
    disk.sync()
    for number in range(CUTS):
        (project.outside / "told.jsonl").unlink(missing_ok=True)
        name = f"cut-{number}"
        cut(project, disk, name, chance)
        done = project.dvc("exp", "recover")
        steps = [line["step"] for line in told(project)]
        print(f"{name}: told {len(steps)} | {done.stdout.strip()}", flush=True)
        assert done.returncode == 0, done.stdout
        tip = project.exps()[name]
        kept = {cached(project, sha).read_text() for sha in project.commits(tip)}
        assert {f"{step}" * 1000 for step in steps} <= kept
        assert "Experiment-Status: partial" in project.git("log", "-1", "--format=%B", tip)
        assert "nothing to recover" in project.dvc("exp", "recover", check=True).stdout
        assert project.show_json()
        assert project.git("fsck", "--no-dangling", "--no-progress") == ""
        disk.sync()
