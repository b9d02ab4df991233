"""Checkpoints as people train: what a call promises, and that it never hurts the training."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import pytest
from support import DVC_VERSION, Project, wait_for
from support.tiny import cached, steps, told

if TYPE_CHECKING:
    from collections.abc import Iterator

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
def small_cache(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 8 MB to hold a cache."""
    image, folder = tmp_path / "image", tmp_path / "small"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(8 << 20)
    made = subprocess.run(["mkfs.ext4", "-q", image], capture_output=True, check=False)
    mount = ["mount", "-o", "loop", image, folder]
    if made.returncode or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("loop mounts are not allowed here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def live(project: Project) -> list[str]:
    """Return the commits of the only live ref, oldest first."""
    (tip,) = (
        sha for ref, sha in project.refs().items() if ref.startswith("refs/ckpt-recover/live/")
    )
    return project.commits(tip)


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


def test_checkpoint_true_means_something_again(tiny: Callable[..., Project]) -> None:
    """An old script trains on from the commit's output; files and commits stay as DVC's.

    The other tests do with ``persist: true``.
    """
    project = tiny(OLD_SCRIPT, outs=("model: {checkpoint: true}",))
    before = (project.path / "dvc.yaml").read_text()
    project.dvc("exp", "run", "--temp", "-n", "first", check=True)
    first = project.exps()["first"]
    assert len(project.commits(first)) == 1
    assert cached(project, first).read_text() == "3"
    assert project.read(first, "dvc.yaml") == before.rstrip("\n")
    assert "unfinished" not in project.read(first, "dvc.lock")
    project.dvc("exp", "apply", "first", check=True)
    project.git("add", "dvc.lock", "metrics.json")
    project.git("commit", "-q", "-m", "Three steps")  # DVC takes no untracked file along
    project.dvc("exp", "run", "--temp", "-n", "second", "--force", env={"DIE": "1"})
    second = project.exps()["second"]
    assert steps(project, second) == [4, 5, 6]
    assert cached(project, second).read_text() == "6"
    project.dvc("exp", "apply", "second", check=True)
    project.dvc("exp", "run", "--temp", "-n", "third", check=True)
    assert cached(project, project.exps()["third"]).read_text() == "9"
    assert not [ref for ref in project.refs() if "ckpt-recover" in ref]
    project.dvc("freeze", "train", check=True)  # writes dvc.yaml anew
    assert "checkpoint: true" in (project.path / "dvc.yaml").read_text()


def test_repro_makes_no_checkpoint(tiny: Callable[..., Project]) -> None:
    """Outside an experiment a call does nothing, and says so by its result."""
    project = tiny("from dvc.api import make_checkpoint\nsave(1)\ntell(ok=make_checkpoint())\n")
    refs = project.refs()
    done = project.dvc("repro", check=True)
    assert told(project) == [{"ok": False}]
    assert project.refs() == refs
    assert "dvc_ckpt_recover" not in done.stdout


KILLS = (("link", 1), ("rename", 1), ("fsync", 2), ("fsync", 9), ("fsync", 14))
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
    if shutil.which("strace"):
        for call, when in KILLS:  # the recovery dies as well, again and again
            inject = f"inject={call}:signal=SIGKILL:when={when}"
            strace = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
            recover = [*strace, sys.executable, "-c", RECOVER]
            assert project.run(*recover, env=None, check=False, timeout=120).returncode, call
    project.python("-c", RECOVER)
    made = live(project)[1:]
    assert len(made) == 1
    assert json.loads(project.read(made[0], "metrics.json")) == {"step": 2}
    assert cached(project, made[0]).read_bytes() == (temp_dir / "model").read_bytes()
    assert project.python("-c", RECOVER).stdout.split() == []
    assert list(staging.glob("*/*/ready.json")) == []


TROUBLES = """
import subprocess, threading
from dvc_ckpt_recover import make_checkpoint
MAIN = Path(os.environ["DVC_ROOT"])
MOUNT = os.environ["SMALL_CACHE"]


def attempt(what):
    tell(what=what, ok=make_checkpoint(wait=True))


def fill():
    with open("model", "wb") as file:
        file.write(os.urandom(20 << 20))


def keep_changing():
    with open("model", "r+b", buffering=0) as file:
        while not stop.is_set():
            file.write(os.urandom(100))


def remount(how):
    subprocess.run(["mount", "-o", f"remount,{how}", MOUNT], check=True)


save(1)
attempt("first")
Path("model").unlink()
attempt("missing")
save(2)
attempt("after missing")
fill()
stop = threading.Event()
thread = threading.Thread(target=keep_changing)
thread.start()
attempt("changing")
stop.set()
thread.join()
attempt("full")
save(3)
attempt("after full")
remount("ro")
save(4)
attempt("read-only")
remount("rw")
save(5)
attempt("after read-only")
(ref,) = (MAIN / ".git" / "refs" / "ckpt-recover" / "live").iterdir()
lock = ref.with_name(ref.name + ".lock")
lock.touch()
save(6)
attempt("locked")
lock.unlink()
save(7)
attempt("after locked")
(record,) = (MAIN / ".dvc" / "tmp" / "ckpt-recover" / "runs").glob("*.json")
tell(what="record", skipped=json.loads(record.read_text())["skipped"])
status = [sys.executable, "-m", "dvc_ckpt_recover", "status", "--json"]
found = json.loads(subprocess.run(status, cwd=MAIN, capture_output=True, check=True).stdout)
tell(what="status", skipped=found["skipped"])
"""


def test_trouble_skips_one_checkpoint(tiny: Callable[..., Project], small_cache: Path) -> None:
    """Whatever is wrong, the training goes on, the next checkpoint works, and it is counted."""
    project = tiny(TROUBLES)
    (project.path / ".dvc" / "config.local").write_text(f"[cache]\n    dir = {small_cache}/c\n")
    done = project.dvc(
        "exp", "run", "--temp", "-n", "tried", env={"SMALL_CACHE": str(small_cache)}, check=True
    )
    *tried, record, status = told(project)
    good = ["first", "after missing", "after full", "after read-only", "after locked"]
    assert [attempt["what"] for attempt in tried if attempt["ok"]] == good
    reasons = {
        "missing": "the output model is missing",
        "changing": "model changed while it was copied aside",
        "full": "No space left on device",
        "read-only": "Read-only file system",
        "locked": "the ref refs/ckpt-recover/live/",
    }
    assert [attempt["what"] for attempt in tried if not attempt["ok"]] == list(reasons)
    assert len(record["skipped"]) == len(reasons)
    assert status["skipped"] == {"tried": record["skipped"]}
    said = [line for line in done.stdout.splitlines() if "was skipped" in line]
    assert len(said) == len(reasons)
    for reason, line, counted in zip(reasons.values(), said, record["skipped"]):
        assert reason in line
        assert reason in counted
    assert "5 checkpoint(s) skipped" in done.stdout
    assert "7" in project.read(project.exps()["tried"], "metrics.json")
    assert project.commits(project.exps()["tried"], "main~0")[1:] == []


DVC_DIES = """
from dvc_ckpt_recover import make_checkpoint
save(1)
make_checkpoint(wait=True)
os.kill(DVC_PID, signal.SIGKILL)
start = time.monotonic()
ok = make_checkpoint()
tell(ok=ok, seconds=time.monotonic() - start)
"""


def test_calls_return_when_dvc_is_dead(tiny: Callable[..., Project]) -> None:
    """The trainer goes on alone: its calls neither block nor fail, they warn."""
    project = tiny(DVC_DIES)
    run = project.start("exp", "run", "--temp", "-n", "left-alone")
    run.wait(60)
    (said,) = wait_for(lambda: told(project))
    assert said["ok"] is False
    assert said["seconds"] < 1
    wait_for(lambda: "RuntimeWarning: dvc_ckpt_recover: dvc is gone" in run.text(), timeout=10)


RANKS = """
import multiprocessing
from dvc_ckpt_recover import make_checkpoint
SEED = Path("params.yaml").read_text().split()[-1]


def rank(number, barrier):
    for step in (1, 2):
        barrier.wait()
        if number == 0:
            Path("metrics.json").write_text(json.dumps({"step": step}))
            Path("model").write_text(f"{SEED} {step} " + "x" * 4_000_000)
        barrier.wait()
        tell(ok=make_checkpoint(), step=step)


if __name__ == "__main__":
    (OUTSIDE / f"started-{SEED}").touch()
    while len(list(OUTSIDE.glob("started-*"))) < 3:
        time.sleep(0.02)
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(6)
    ranks = [context.Process(target=rank, args=(number, barrier)) for number in range(6)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    sys.exit(3)
"""


def test_three_runs_of_six_ranks(tiny: Callable[..., Project]) -> None:
    """Ranks that call at once share checkpoints; runs side by side never mix theirs."""
    project = tiny(RANKS, params="seed: 0\n")
    runs = []
    for seed in (1, 2, 3):  # DVC lets one set-up at a time into the workspace
        runs.append(project.start("exp", "run", "--temp", "-n", f"run{seed}", "-S", f"seed={seed}"))
        wait_for((project.outside / f"started-{seed}").exists)
    for run in runs:
        assert run.wait(120) == 255
    assert len(told(project)) == 3 * 2 * 6
    assert all(said["ok"] for said in told(project))
    for seed in (1, 2, 3):
        tip = project.exps()[f"run{seed}"]
        taken = steps(project, tip)
        assert set(taken) == {1, 2}
        assert len(taken) < 12
        assert taken == sorted(taken)
        for commit, step in zip(project.commits(tip), taken):
            assert cached(project, commit).read_text().startswith(f"{seed} {step} ")


FOLDERS = """
from dvc_ckpt_recover import make_checkpoint
top = Path("model")
for number in range(200):
    (top / f"{number % 5}").mkdir(parents=True, exist_ok=True)
    (top / f"{number % 5}" / f"{number}").write_text(f"{number}")
(top / "with space").mkdir()
(top / "with space" / "gewicht\u00e4\u6b0a.bin").write_text("unicode")
(top / "last").symlink_to("0/0")
(top / "folder").symlink_to("0")
(top / "run.sh").write_text("#!/bin/sh")
(top / "run.sh").chmod(0o755)
Path("metrics.json").write_text('{"step": 1}')
time.sleep(0.1)  # the clock of the file system ticks
make_checkpoint(wait=True)
(top / "1" / "1").unlink()
(top / "2" / "2").write_text("new")
(top / "last").unlink()
(top / "last").symlink_to("2/2")
Path("metrics.json").write_text('{"step": 2}')
make_checkpoint(wait=True)
sys.exit(3)
"""


def test_folders_are_stored_as_dvc_would(tiny: Callable[..., Project]) -> None:
    """Nested files, names, links and deletions: each checkpoint restores what was there."""
    project = tiny(FOLDERS)
    project.dvc("exp", "run", "--temp", "-n", "many")
    tip = project.exps()["many"]
    first, second = project.commits(tip)[:-1]
    names = {f"{number % 5}/{number}": f"{number}" for number in range(200)}
    names |= {"with space/gewichtä權.bin": "unicode", "last": "0", "run.sh": "#!/bin/sh"}
    assert members(project, first) == names
    del names["1/1"]
    assert members(project, second) == names | {"2/2": "new", "last": "new"}
    project.git("checkout", "-q", second)
    project.dvc("checkout", check=True)
    restored = [path for path in (project.path / "model").rglob("*") if path.is_file()]
    found = {
        path.relative_to(project.path / "model").as_posix(): path.read_text() for path in restored
    }
    assert found == names | {"2/2": "new", "last": "new"}


def members(project: Project, commit: str) -> dict[str, str]:
    """Return the files of the folder ``model`` in a commit: name -> text."""
    top = cached(project, commit)
    store = top.parent.parent
    listed = {entry["relpath"]: entry["md5"] for entry in json.loads(top.read_text())}
    return {name: (store / oid[:2] / oid[2:]).read_text() for name, oid in listed.items()}


def test_an_unchanged_file_is_not_copied_again(tmp_path: Path) -> None:
    """Of three files the one that changed is copied, and one so new that it may change unseen."""
    from dvc_ckpt_recover.checkpointing.snapshot import Snapshot
    from dvc_ckpt_recover.dvc_api.stages import OutView, PipelineView, StageView

    model = tmp_path / "model"
    model.mkdir()
    out = OutView(str(model), "model", "model", cached=True, resumable=True)
    stage = StageView(("dvc.lock", "train"), "train", (out,))
    view = PipelineView(str(tmp_path), stage, (stage,), ())

    def copied(known: dict[str, Any]) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        (found,) = Snapshot(str(folder), known, ()).outs(view, cached=True)
        assert len(list(folder.iterdir())) == len([file for file in found.files if file.aside])
        return {file.name: file for file in found.files}

    for name in ("same", "changed"):
        (model / name).write_text("1")
    newest = (model / "changed").stat().st_ctime_ns
    wait_for(lambda: time.time_ns() - newest > 60_000_000)
    (model / "fresh").write_text("1")
    first = copied({})
    assert [file.aside != "" for file in first.values()] == [True] * 3
    known = {str(model / name): (file.stamp, "oid") for name, file in first.items() if file.stamp}
    assert set(known) == {str(model / "same"), str(model / "changed")}
    (model / "changed").write_text("2")
    second = copied(known)
    assert {name for name, file in second.items() if file.aside} == {"changed", "fresh"}
    assert second["same"].oid == "oid"


KEEP = """
import subprocess
from dvc_ckpt_recover import make_checkpoint
MAIN = Path(os.environ["DVC_ROOT"])
most = 0
for step in range(1, 9):
    save(step)
    make_checkpoint(wait=True)
    if step == 3:
        (ref,) = (MAIN / ".git/refs/ckpt-recover/live").iterdir()
        like = ["git", "branch", "-f", "liked", ref.read_text().strip()]
        subprocess.run(like, cwd=MAIN, check=True)
    cache = [path for path in (MAIN / ".dvc/cache/files/md5").rglob("*") if path.is_file()]
    most = max(most, len(cache))
tell(most=most)
if os.environ.get("DIE"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_keep_bounds_the_cache(tiny: Callable[..., Project]) -> None:
    """Only the newest two checkpoints are left, with their data, and what a branch names."""
    project = tiny(KEEP, meta="{checkpoint: {keep: 2}}")
    project.dvc("exp", "run", "--temp", "-n", "some", env={"DIE": "1"})
    tip = project.exps()["some"]
    assert steps(project, tip) == [7, 8]
    stored = (project.path / ".dvc" / "cache" / "files" / "md5").rglob("*")
    assert sorted(path.read_text() for path in stored if path.is_file()) == ["3", "7", "8"]
    # the branch's, two kept, two that a snapshot may still refer to
    assert told(project)[0]["most"] <= 5
    project.dvc("exp", "run", "--temp", "-n", "whole", check=True)
    assert cached(project, project.exps()["whole"]).read_text() == "8"
    project.dvc("exp", "apply", "some", check=True)
    assert (project.path / "model").read_text() == "8"
