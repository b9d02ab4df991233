"""What the pipeline costs, against a bare ``git fetch`` and one read of the data."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

import pytest

from dvc_ckpt_recover.selftest import children
from dvc_ckpt_recover.selftest import scene as scenes

if TYPE_CHECKING:
    from pathlib import Path

    from dvc_ckpt_recover.selftest.scene import Scene

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1800)]
MB = 1_000_000


def bare(scene: Scene, folder: Path) -> float:
    """Return the seconds of a fetch of the run's history and one read of its data."""
    clone = folder / "bare"
    scenes.git(scene.repo, "init", "-q", "--bare", str(clone))
    scenes.git(str(clone), "fetch", "-q", scene.repo, "main")
    start = time.monotonic()
    scenes.git(str(clone), "fetch", "-q", scene.repo, f"refs/ckpt-recover/live/{scene.run_id}:x")
    for top, _, names in os.walk(scene.cache_root):
        for name in names:
            digest = hashlib.md5()
            with open(os.path.join(top, name), "rb") as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
    return time.monotonic() - start


@pytest.mark.parametrize(
    ("steps", "size", "dirty"),
    [(1, 300, 0), (100, 300, 0), (1000, 300, 0), (1, 1000 * MB, 0), (1, 300, 500 * MB)],
)
def test_the_cost(steps: int, size: int, dirty: int, tmp_path: Path) -> None:
    """Print the times; the aim is at most one and a half times the bare minimum."""
    top = tmp_path / "scene"
    home = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
    with tempfile.TemporaryDirectory(dir=home) as kept:
        built = scenes.build(str(top), scenes.DEAD, steps=steps, staged=0, size=size)
        shutil.move(str(top), f"{kept}/near") if steps > 1 else None
        if steps > 1:
            subprocess.run(["cp", "-a", f"{kept}/near", str(top)], check=True)
        os.sync()
        least = bare(built, tmp_path)
        if dirty:
            with open(tmp_path / "unrelated", "wb") as file:
                file.writelines(b"d" * MB for _ in range(dirty // MB))
        start = time.monotonic()
        outcome = children.run(built, "recover")
        taken = time.monotonic() - start
    assert outcome.errors == []
    print(
        f"COST {steps} checkpoints, {size / MB:.0f} MB, {dirty / MB:.0f} MB dirty: "
        f"{taken:.2f} s, bare {least:.2f} s, {taken / least:.1f} times"
    )
