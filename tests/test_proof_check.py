"""``dvc exp recover --check``: what a power cut left is found, repaired or named."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Callable

import pytest
from support import DVC_VERSION
from support.tiny import cached

if TYPE_CHECKING:
    from pathlib import Path

    from support import Project

needs_ours = pytest.mark.skipif(DVC_VERSION < (3,), reason="DVC 2 makes its own checkpoints")
TRAINER = """\
save(1)
import dvc_ckpt_recover
dvc_ckpt_recover.make_checkpoint(wait=True)
"""
DEATH = "os.kill(os.getpid(), signal.SIGKILL)\n"


@needs_ours
def test_check_finds_repairs_and_names(tiny: Callable[..., Project]) -> None:
    """Empty refs, empty Git objects and wrong DVC objects: exit 0 when repaired, else 3."""
    project = tiny(TRAINER + DEATH)
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


def overwrite(path: Path, data: bytes = b"garbage") -> None:
    """Write into a file that is read-only."""
    path.chmod(0o644)
    path.write_bytes(data)


def loose(project: Project, rev: str) -> Path:
    """Return the file of a Git object."""
    sha = project.git("rev-parse", rev)
    return project.path / ".git" / "objects" / sha[:2] / sha[2:]


@pytest.fixture
def pushed(tiny: Callable[..., Project]) -> Project:
    """Return a project with a partial experiment ``hurt`` that a Git and a DVC remote have too."""
    project = tiny(TRAINER + TRAINER.replace("1", "2") + DEATH)
    remote = project.outside / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    project.git("remote", "add", "origin", str(remote))
    project.git("push", "-q", "origin", "main")
    project.dvc("remote", "add", "-d", "store", str(project.outside / "store"), check=True)
    project.git("commit", "-qam", "A remote")
    project.dvc("exp", "run", "--temp", "-n", "hurt")
    project.git("push", "-q", "origin", "main")
    project.dvc("exp", "push", "origin", "hurt", check=True)
    return project


@needs_ours
def test_check_gets_back_from_remotes_what_only_they_have(pushed: Project) -> None:
    """A ref with its commit, commits, files and DVC objects, those of earlier checkpoints too."""
    tip = pushed.exps()["hurt"]
    first, second, _ = pushed.commits(tip)
    (ref,) = (pushed.path / ".git" / "refs" / "exps").glob("??/*/hurt")

    def lose_the_tip() -> None:
        loose(pushed, tip).unlink()
        ref.write_bytes(b"")

    damages = (
        lose_the_tip,
        lambda: loose(pushed, first).unlink(),
        lambda: overwrite(loose(pushed, f"{second}:metrics.json")),
        lambda: overwrite(loose(pushed, f"{second}^{{tree}}"), b""),
        lambda: overwrite(cached(pushed, first)),
        lambda: overwrite(cached(pushed, second), b""),
    )
    for damage in damages:
        damage()
        done = pushed.dvc("exp", "recover", "--check")
        found = re.search(r"(\d+) found, (\d+) repaired", done.stdout)
        assert done.returncode == 0, done.stdout
        assert found, done.stdout
        assert found[1] == found[2] != "0", done.stdout
        assert pushed.git("fsck", "--no-dangling") == ""
        assert pushed.exps()["hurt"] == tip
        assert [cached(pushed, sha).read_text() for sha in (first, second)] == ["1", "2"]
    assert "All is whole." in pushed.dvc("exp", "recover", "--check", check=True).stdout


@needs_ours
def test_check_names_what_an_unreachable_remote_had(pushed: Project) -> None:
    """A remote that is gone is no crash: what is damaged is named, and nothing else changes."""
    first, _, tip = pushed.commits(pushed.exps()["hurt"])
    before = pushed.refs()
    pushed.git("remote", "set-url", "origin", str(pushed.outside / "gone.git"))
    (pushed.outside / "store").rename(pushed.outside / "gone")
    overwrite(cached(pushed, first))
    overwrite(loose(pushed, f"{tip}:metrics.json"))
    done = pushed.dvc("exp", "recover", "--check")
    assert done.returncode == 3, done.stdout
    assert "Traceback" not in done.stdout
    assert len(re.findall("^ERROR", done.stdout, re.MULTILINE)) == 2, done.stdout
    assert pushed.refs() == before
    assert cached(pushed, first).read_bytes() == b"garbage"
    assert not (pushed.path / ".dvc" / "tmp" / "ckpt-recover").exists()
