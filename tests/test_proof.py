"""The proof, as ``python -m dvc_ckpt_recover selftest`` gives it: a quick part, and all of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING

import pytest

from dvc_ckpt_recover.selftest import matrix
from dvc_ckpt_recover.selftest import scene as scenes
from dvc_ckpt_recover.selftest.matrix import Bench, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
SEED = 3


@pytest.fixture
def ram() -> Iterator[str]:
    """Return a folder where a sync costs nothing: a killed process needs no disk."""
    home = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
    with tempfile.TemporaryDirectory(dir=home) as folder:
        yield folder


def clean(tally: Tally) -> None:
    """Fail with what went wrong at which point."""
    print(f"{tally.label}: {tally.points} points")
    assert tally.is_clean, "\n".join(tally.notes)


@needs_strace
@pytest.mark.parametrize("kind", [scenes.DEAD, scenes.SUCCESS, scenes.LIVE_RUN])
def test_killed_at_some_system_calls(kind: str, ram: str) -> None:
    """Killed anywhere: nothing that was acknowledged is lost, and repeats give one result."""
    tally = Tally(kind)
    matrix.kill_all(Bench(ram, kind), tally, share=0.008, seed=SEED)
    assert tally.points >= 3
    clean(tally)


@needs_strace
@pytest.mark.parametrize("error", matrix.FAULTS)
def test_a_failing_call_keeps_everything(error: str, ram: str) -> None:
    """A disk that is full or breaks is told in a line; the repeat succeeds."""
    tally = Tally(error)
    matrix.fail_all(Bench(ram, scenes.SUCCESS), error, tally, share=0.008, seed=SEED)
    assert tally.points >= 1
    clean(tally)
