"""Checkpoints as people train: what a call promises, and that it never hurts the training."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, Callable

import pytest
from support import DVC_VERSION, Project, wait_for
from support.tiny import build_tiny

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    DVC_VERSION < (3,), reason="DVC 2 makes its checkpoints itself: see test_checkpoints_native.py"
)
RECOVER = """
import sys
from dvc.repo import Repo
from dvc_ckpt_recover.checkpointing import finish_staged
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.runs import Lease, Places, load_record
places = Places(".dvc/tmp")
(run_id,) = places.runs()
record = load_record(places, run_id)
assert Lease(places, run_id).claim()
print(*finish_staged(places, record, Cache(Repo("."))))
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Callable[..., Project]]:
    """Return a function that builds a one-stage project; its processes end with the test."""
    made: list[Project] = []

    def make(trainer: str, **options: Any) -> Project:
        folder = tmp_path / f"tiny{len(made)}"
        folder.mkdir()
        made.append(build_tiny(folder, trainer, **options))
        return made[-1]

    yield make
    for project in made:
        project.end_all()


def told(project: Project) -> list[dict[str, Any]]:
    """Return what the trainer told, in order."""
    path = project.outside / "told.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def live(project: Project) -> list[str]:
    """Return the commits of the only live ref, oldest first."""
    (tip,) = (sha for ref, sha in project.refs().items() if ref.startswith("refs/ckpt-recover/live/"))
    return project.commits(tip)


def cached(project: Project, commit: str, path: str = "model") -> Path:
    """Return the cache's file of an output of a commit."""
    lock = project.read(commit, "dvc.lock").splitlines()
    at = next(i for i, line in enumerate(lock) if line.strip() == f"- path: {path}")
    oid = next(line.split()[-1] for line in lock[at:] if "md5:" in line)
    return project.path / ".dvc" / "cache" / "files" / "md5" / oid[:2] / oid[2:]


def steps(project: Project, tip: str) -> list[int]:
    """Return the metrics' step of each checkpoint below a partial experiment's closing commit."""
    commits = project.commits(tip)[:-1]
    return [json.loads(project.read(commit, "metrics.json"))["step"] for commit in commits]


OLD_SCRIPT = """
from dvc.api import make_checkpoint
first = model()
for step in range(first + 1, first + 4):
    save(step)
    make_checkpoint()
if os.environ.get("DIE"):
    Path("model").write_text("torn")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("marker", ["checkpoint", "persist"])
def test_marked_outputs_go_on_from_where_a_run_starts(
    tiny: Callable[..., Project], marker: str
) -> None:
    """An old script trains on from the commit's output; files and commits stay as DVC's."""
    project = tiny(OLD_SCRIPT, outs=(f"model: {{{marker}: true}}",))
    before = (project.path / "dvc.yaml").read_text()
    project.dvc("exp", "run", "--temp", "-n", "first", check=True)
    first = project.exps()["first"]
    assert len(project.commits(first)) == 1
    assert cached(project, first).read_text() == "3"
    assert project.read(first, "dvc.yaml") == before.rstrip("\n")
    assert "unfinished" not in project.read(first, "dvc.lock")
    project.dvc("exp", "apply", "first", check=True)
    project.git("add", "dvc.lock", "metrics.json")  # DVC takes no untracked file along
    project.dvc("exp", "run", "--temp", "-n", "second", env={"DIE": "1"})
    second = project.exps()["second"]
    assert steps(project, second) == [4, 5, 6]
    assert cached(project, second).read_text() == "6"
    project.dvc("exp", "apply", "second", check=True)
    project.dvc("exp", "run", "--temp", "-n", "third", check=True)
    assert cached(project, project.exps()["third"]).read_text() == "9"
    assert not [ref for ref in project.refs() if "ckpt-recover" in ref]
    project.dvc("freeze", "train", check=True)  # writes dvc.yaml anew
    assert f"{marker}: true" in (project.path / "dvc.yaml").read_text()


def test_repro_makes_no_checkpoint(tiny: Callable[..., Project]) -> None:
    """Outside an experiment a call does nothing, and says so by its result."""
    project = tiny("from dvc.api import make_checkpoint\nsave(1)\ntell(ok=make_checkpoint())\n")
    refs = project.refs()
    done = project.dvc("repro", check=True)
    assert told(project) == [{"ok": False}]
    assert project.refs() == refs
    assert "dvc_ckpt_recover" not in done.stdout


BOTH_DIE = """
from dvc_ckpt_recover import make_checkpoint
save(1)
make_checkpoint(wait=True)
Path("metrics.json").write_text('{"step": 2}')
with open("model", "wb") as file:
    for _ in range(64):
        file.write(os.urandom(1 << 20))
assert make_checkpoint()
os.kill(DVC_PID, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_copied_aside_survives_both(tiny: Callable[..., Project]) -> None:
    """Dvc and trainer are killed as soon as a plain call returns: the recovery finishes it."""
    project = tiny(BOTH_DIE)
    project.dvc("exp", "run", "--temp", "-n", "both")
    staging = project.path / ".dvc" / "tmp" / "ckpt-recover" / "staging"
    assert len(live(project)) == 1
    assert len(list(staging.glob("*/*/ready.json"))) == 1
    (temp_dir,) = project.temp_dirs()
    made = project.python("-c", RECOVER).stdout.split()
    assert made == live(project)[1:]
    assert json.loads(project.read(made[0], "metrics.json")) == {"step": 2}
    assert cached(project, made[0]).read_bytes() == (temp_dir / "model").read_bytes()
    assert project.python("-c", RECOVER).stdout.split() == []
    assert list(staging.glob("*/*")) == []
