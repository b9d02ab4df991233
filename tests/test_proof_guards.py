"""Each guard by itself: what it protects from, and that the same test is red without it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Callable

import pytest
from support import wait_for

from dvc_ckpt_recover.errors import UnsafeError
from dvc_ckpt_recover.git import Refs, Store, locks
from dvc_ckpt_recover.selftest import children, powercut
from dvc_ckpt_recover.selftest import scene as scenes
from dvc_ckpt_recover.selftest.guards import GUARDS
from dvc_ckpt_recover.selftest.matrix import Bench, Tally

if TYPE_CHECKING:
    from pathlib import Path

    from dvc_ckpt_recover.selftest.scene import Scene

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


# what each guard protects from: a scenario returns what went wrong


def cut_after(disk: powercut.Disk, top: str, guards: tuple[str, ...]) -> Tally:
    """Cut the power right after the last checkpoint was acknowledged; others synced."""
    tally = Tally("cut")
    bench = powercut.CutBench([disk], top, scenes.LIVE_RUN)
    bench.reset()
    outcome = children.run(bench.scene, bench.action, guards)
    disk.cut()
    bench.judge_cut("after the end", outcome.steps("ready"), tally)
    return tally


_LINE = re.compile(r"^\d+ +(\w+)\((.*)\) = ")
_PATHS = re.compile(r'"([^"]+)"|\d+<([^>]+)>')
_PROVEN = ("/.git/refs/", "/.git/objects/", "/cache/files/", "/receipts/")


def order_in_the_log(top: str, guards: tuple[str, ...]) -> Tally:
    """Trace a recovery: what gets a name is synced before, its folder before anything is removed.

    An ext4 syncs the folder with the file, so that no power cut shows the difference.
    """
    tally = Tally("order")
    bench = Bench(top, scenes.SUCCESS)
    bench.reset()
    calls = "fsync,fdatasync,syncfs,rename,link,unlink,unlinkat,rmdir"
    outcome = children.run_hit(bench.scene, "recover", bench.log, calls, guards=guards)
    synced: set[str] = set()
    open_names: set[str] = set()
    for line in outcome.calls:
        found = _LINE.match(line)
        if not found or " = -1 " in line:
            continue
        call, paths = found[1], [one or two for one, two in _PATHS.findall(found[2])]
        if call in ("fsync", "fdatasync"):
            synced.add(paths[0])
            open_names = {name for name in open_names if os.path.dirname(name) != paths[0]}
            open_names -= {paths[0]} if os.path.isdir(paths[0]) else set()
        elif call in ("rename", "link") and any(part in paths[-1] for part in _PROVEN):
            tally.points += 1
            open_names.add(paths[-1])
            if "/refs/" in paths[-1] and paths[0] not in synced:
                tally.count(line, [("order", "a ref got its name before it was synced")])
        elif call in ("unlink", "unlinkat", "rmdir") and ".removing" in line and open_names:
            tally.count(line, [("order", f"removed before the names were synced: {open_names}")])
            return tally
    return tally


def damaged_object(top: str, guards: tuple[str, ...]) -> Tally:
    """Recover a finished run, one object of which has other bytes in the cache."""
    tally = Tally("damaged")
    bench = Bench(top, scenes.SUCCESS)
    bench.reset()
    oid = scenes.md5(scenes.part_of(scenes.FINAL))
    path = os.path.join(bench.scene.cache_root, oid[:2], oid[2:])
    os.chmod(path, 0o644)
    with open(path, "r+b") as file:
        file.write(b"X")
    outcome = children.run(bench.scene, "recover", guards)
    if not outcome.errors:
        tally.count("no error", [("silent", "nothing was said of the damage")])
    if not os.path.isdir(bench.scene.temp_dir):
        tally.count("removed", [("removed unproven", "the temp dir does not have its name")])
    tally.count("damaged", bench.oracle.judge())
    return tally


def killed_at_renames(top: str, guards: tuple[str, ...]) -> Tally:
    """Kill the recovery of a finished run at each rename."""
    tally = Tally("renames")
    bench = Bench(top, scenes.SUCCESS)
    bench.guards = guards
    for number in range(1, bench.calls()["rename"] + 1):
        bench.hit("rename", f"signal=SIGKILL:when={number}")
        tally.points += 1
        tally.count(f"rename {number}", bench.oracle.judge())
    return tally


def lock_in_use(top: str, guards: tuple[str, ...]) -> Tally:
    """Recover while a stopped git has the lock of the ref that the recovery has to make."""
    tally = Tally("lock")
    bench = Bench(top, scenes.DEAD)
    bench.reset()
    with holding_a_lock(bench.scene, os.path.join(top, "git.log")) as lock:
        before = os.lstat(lock).st_ino
        outcome = children.run(bench.scene, "recover", guards)
        if not os.path.exists(lock) or os.lstat(lock).st_ino != before:
            tally.count("lock", [("removed unproven", "the lock of a living process was removed")])
        if not any(lock in error for error in outcome.errors):
            tally.count("lock", [("silent", f"the lock was not named: {outcome.said}")])
    return tally


class holding_a_lock:  # noqa: N801 - a context, used like a function
    """A real git, stopped with the lock of the wanted ref in hand."""

    def __init__(self, scene: Scene, log: str) -> None:
        self.lock = os.path.join(scene.repo, ".git", *scene.wanted_ref.split("/")) + ".lock"
        words = ["strace", "-f", "-qq", "-o", log, "-e", "trace=write"]
        words += ["-e", "inject=write:signal=SIGSTOP:when=1", "git", "update-ref"]
        words += [scene.wanted_ref, scene.baseline]
        self._words, self._repo = words, scene.repo

    def __enter__(self) -> str:
        """Start it and wait until it stands still."""
        self._tracer = subprocess.Popen(self._words, cwd=self._repo, start_new_session=True)
        wait_for(lambda: os.path.exists(self.lock), what=self.lock)
        wait_for(lambda: time.time() - os.stat(self.lock).st_mtime > 0.3)
        return self.lock

    def __exit__(self, *_: object) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            os.killpg(self._tracer.pid, signal.SIGKILL)
        self._tracer.wait()


def scenario(guard: str, disk: Callable[[], powercut.Disk], top: str, *, out: bool) -> Tally:
    """Return what goes wrong in the scenario of a guard, which may be taken out."""
    guards = (guard,) if out else ()
    if guard == "sync of files":
        return cut_after(disk(), top, guards)
    if guard == "sync of folders":
        return order_in_the_log(top, guards)
    if guard == "order of publish and removal":
        return killed_at_renames(top, guards)
    if guard == "stale-lock rule":
        return lock_in_use(top, guards)
    return damaged_object(top, guards)


@needs_strace
@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_protects(guard: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """What the guard is there for does no harm."""
    tally = scenario(guard, lambda: request.getfixturevalue("disk"), str(tmp_path), out=False)
    assert tally.is_clean, "\n".join(tally.notes)


@needs_strace
@pytest.mark.proof
@pytest.mark.parametrize("guard", GUARDS)
def test_without_the_guard_it_is_red(
    guard: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The test above can fail: with the guard taken out it does."""
    tally = scenario(guard, lambda: request.getfixturevalue("disk"), str(tmp_path), out=True)
    print("\n".join(tally.notes))
    assert not tally.is_clean


# locks


@needs_strace
def test_a_lock_left_by_a_killed_git_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A real git, killed with a ref's lock in hand, blocks nothing for longer than a moment."""
    scene = scenes.build(str(tmp_path / "scene"), scenes.DEAD)
    monkeypatch.setattr(locks, "MIN_AGE", 0.2)
    with holding_a_lock(scene, str(tmp_path / "log")) as lock:
        assert "works in the repository" in locks.why_not_stale(lock, f"{scene.repo}/.git")
    assert os.path.exists(lock)
    os.utime(lock)
    assert locks.why_not_stale(lock, f"{scene.repo}/.git") == "it is only a moment old"
    Refs(Store(scene.repo)).move(scene.wanted_ref, scene.baseline, None)
    assert not os.path.exists(lock)
    said = capfd.readouterr().err
    assert lock in said
    assert "was removed" in said


def test_a_lock_that_may_be_somebodys_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stays in the way is an error that names the file and what to do."""
    scene = scenes.build(str(tmp_path / "scene"), scenes.DEAD)
    lock = f"{scene.repo}/.git/{scene.wanted_ref}.lock"
    os.makedirs(os.path.dirname(lock))
    with open(lock, "w", encoding="ascii"):
        pass
    monkeypatch.setattr(locks, "WAIT", 0.3)
    with pytest.raises(
        UnsafeError, match=r"no git or dvc works in this repository, remove .*proof"
    ):
        Refs(Store(scene.repo)).move(scene.wanted_ref, scene.baseline, None)
    assert os.path.exists(lock)


# repairs


def empty(path: str) -> None:
    """Leave a file without a byte, as a power cut does."""
    os.chmod(path, 0o644)
    with open(path, "wb"):
        pass


@pytest.mark.parametrize("what", ["live ref", "run ref", "wanted ref", "git object", "dvc object"])
def test_what_a_power_cut_left_empty_is_repaired(what: str, tmp_path: Path) -> None:
    """Nothing empty is trusted, and nothing empty stops a recovery that has the bytes elsewhere."""
    kind = scenes.SUCCESS if what.endswith("object") else scenes.DEAD
    bench = Bench(str(tmp_path), kind)
    bench.reset()
    scene = bench.scene
    git_dir = os.path.join(scene.repo, ".git")
    if what == "live ref":
        empty(f"{git_dir}/refs/ckpt-recover/live/{scene.run_id}")
    elif what == "run ref":
        empty(f"{git_dir}/refs/ckpt-recover/runs/{scene.run_id}")
    elif what == "wanted ref":
        path = f"{git_dir}/{scene.wanted_ref}"
        os.makedirs(os.path.dirname(path))
        with open(path, "wb"):
            pass
    elif what == "git object":
        sha = scenes.git(scene.temp_dir, "rev-parse", f"{scene.wanted_ref}:metrics.json").strip()
        path = f"{git_dir}/objects/{sha[:2]}/{sha[2:]}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"garbage")
    else:
        oid = scenes.md5(scenes.bytes_of(scenes.FINAL))
        path = os.path.join(scene.cache_root, oid[:2], oid[2:])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb"):
            pass
        os.chmod(path, 0o444)
    outcome = children.run(scene, "recover")
    assert outcome.errors == []
    assert bench.oracle.judge(final=True) == []
    assert bench.oracle.fingerprint() == bench.result


def test_what_others_are_writing_is_no_empty_object(tmp_path: Path) -> None:
    """Git and DVC write an object aside, in a file beside it that is empty at first."""
    scene = scenes.build(str(tmp_path / "scene"), scenes.DEAD)
    folder = os.path.join(scene.repo, ".git", "objects", "12")
    os.makedirs(folder, exist_ok=True)
    names = ("3" * 38, "tmp_obj_Ab12Cd", "4" * 38 + ".lock")
    for name in names:
        with open(os.path.join(folder, name), "wb"):
            pass
    assert Store(scene.repo).drop_empty() == ["12" + names[0]]
    assert set(names) & set(os.listdir(folder)) == set(names[1:])


# space


def test_a_full_disk_keeps_everything_and_says_how_much(tmp_path: Path, why_no_cut: str) -> None:
    """On a full disk the reserve is used first; without it nothing goes, and repeating succeeds."""
    if why_no_cut:
        pytest.skip(why_no_cut)
    with powercut.disk(str(tmp_path / "disk"), 8 * powercut.MIB) as disk:
        bench = powercut.CutBench([disk], str(tmp_path), scenes.DEAD)
        bench.reset()
        fill(disk.path)
        outcome = children.run(bench.scene, "recover")
        assert outcome.errors == []  # the reserve was enough
        assert bench.oracle.judge(final=True) == []
        os.unlink(os.path.join(disk.path, "full"))
        bench.reset()
        os.unlink(bench.scene.places.reserve(bench.scene.run_id))
        fill(disk.path)
        outcome = children.run(bench.scene, "recover")
        assert any("full" in error and "free about" in error for error in outcome.errors), (
            outcome.said
        )
        assert bench.oracle.judge() == []
        assert os.path.isdir(bench.scene.temp_dir)
        os.unlink(os.path.join(disk.path, "full"))
        assert children.run(bench.scene, "recover").errors == []
        assert bench.oracle.judge(final=True) == []


def test_what_dvc_could_not_store_needs_no_room_for_a_copy(tmp_path: Path) -> None:
    """An output that is only in the temp dir gets a second name in the cache, on the same disk."""
    bench = Bench(str(tmp_path), scenes.SUCCESS)
    bench.reset()
    before = os.stat(os.path.join(bench.scene.temp_dir, "model")).st_ino
    assert children.run(bench.scene, "recover").errors == []
    oid = scenes.md5(scenes.bytes_of(scenes.FINAL))
    assert os.stat(os.path.join(bench.scene.cache_root, oid[:2], oid[2:])).st_ino == before


def fill(folder: str) -> None:
    """Fill a disk to the last block."""
    with open(os.path.join(folder, "full"), "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1 << 9):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)
        os.fsync(file.fileno())


# all of it, for `make proof`


@needs_strace
@pytest.mark.proof
@pytest.mark.timeout(7200)
def test_the_whole_selftest() -> None:
    """``python -m dvc_ckpt_recover selftest``: at least 2,000 points, 300 cuts, nothing wrong."""
    from dvc_ckpt_recover.selftest.suite import Plan, run

    rows = run(Plan(), lambda row: print(row.label, row.points, row.skipped, flush=True))
    assert not [note for row in rows for note in row.notes if not row.is_clean]
    hits = [row.points for row in rows if not row.label.startswith("power cut")]
    assert sum(hits) >= 2000
    cuts = [row for row in rows if row.label.startswith("power cut")]
    assert all(row.skipped for row in cuts) or sum(row.points for row in cuts) >= 300
