"""``dvc exp recover --check``: what a power cut left is found, repaired or named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import pytest
from support import DVC_VERSION
from support.tiny import cached

if TYPE_CHECKING:
    from support import Project

TRAINER = """\
save(1)
import dvc_ckpt_recover
dvc_ckpt_recover.make_checkpoint(wait=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(DVC_VERSION < (3,), reason="DVC 2 makes its own checkpoints")
def test_check_finds_repairs_and_names(tiny: Callable[..., Project]) -> None:
    """Empty refs, empty Git objects and wrong DVC objects: exit 0 when repaired, else 3."""
    project = tiny(TRAINER)
    project.dvc("exp", "run", "--temp", "-n", "hurt")
    whole = project.dvc("exp", "recover", "--check", check=True)
    assert "All is whole." in whole.stdout
    tip = project.exps()["hurt"]
    (ref,) = (project.path / ".git" / "refs" / "exps").glob("??/*/hurt")
    ref.write_bytes(b"")
    stray = project.path / ".git" / "objects" / "12" / ("3" * 38)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"")
    repaired = project.dvc("exp", "recover", "--check", check=True)
    assert "2 found, 2 repaired" in repaired.stdout
    assert project.exps()["hurt"] == tip
    assert not stray.exists()
    path = cached(project, tip)
    path.chmod(0o644)
    path.write_bytes(b"")
    named = project.dvc("exp", "recover", "--check")
    assert named.returncode == 3
    assert "no DVC remote" in named.stdout + named.stderr
    assert project.dvc("exp", "show", "--json").returncode == 0
