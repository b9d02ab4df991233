"""Files that are whole or absent, locks that die with their holder, a reserve that gives room."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dvc_ckpt_recover.durable import read_json, sync_dirs_up, write_bytes, write_json
from dvc_ckpt_recover.durable.locks import KernelLock
from dvc_ckpt_recover.durable.reserve import SIZE, is_full, keep_reserve
from dvc_ckpt_recover.errors import DamagedError, UnsafeError
from dvc_ckpt_recover.git.locks import HeldError, LockFile

if TYPE_CHECKING:
    from pathlib import Path


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the final name is the old content until the new is on the disk; nothing is left."""
    path = tmp_path / "record.json"
    write_json(str(path), {"step": 1})

    def fail(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_json(str(path), {"step": 2})
    monkeypatch.undo()
    assert read_json(str(path)) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff{}", b"null"])
def test_what_is_no_json_object_is_named(content: bytes, tmp_path: Path) -> None:
    """A torn record is an error with its path, never half a value."""
    path = tmp_path / "torn.json"
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=r"torn\.json"):
        read_json(str(path))


def test_folders_are_synced_up_to_the_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder whose name may be new is synced, the top too, none above it."""
    deep = tmp_path / "top" / "a" / "b"
    deep.mkdir(parents=True)
    synced: list[str] = []
    monkeypatch.setattr("dvc_ckpt_recover.durable.sync.sync_dir", synced.append)
    sync_dirs_up(str(deep / "file"), str(tmp_path / "top"))
    assert synced == [str(deep), str(deep.parent), str(tmp_path / "top")]


def test_a_kernel_lock_is_freed_by_a_kill(tmp_path: Path) -> None:
    """A lease cannot outlive its holder, however it dies."""
    path = str(tmp_path / "lease")
    code = (
        "import sys, time; from dvc_ckpt_recover.durable.locks import KernelLock;"
        "lock = KernelLock(sys.argv[1]); lock.share(); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert not KernelLock(path).take()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    lock = KernelLock(path)
    assert lock.take()
    lock.release()


def test_git_lock_is_exclusive_and_atomic(tmp_path: Path) -> None:
    """Two cannot have it; what fails inside leaves neither a change nor the lock."""
    path = str(tmp_path / "ref")
    write_bytes(path, b"old")
    with LockFile(path), pytest.raises(HeldError, match=r"ref\.lock"), LockFile(path):
        pass
    with pytest.raises(KeyError), LockFile(path):
        raise KeyError
    assert (tmp_path / "ref").read_bytes() == b"old"
    with LockFile(path) as lock:
        lock.commit(b"new")
    assert (tmp_path / "ref").read_bytes() == b"new"
    assert not (tmp_path / "ref.lock").exists()


def test_the_reserve_takes_its_room(tmp_path: Path) -> None:
    """The blocks are really taken, or giving them up would free nothing."""
    path = tmp_path / "reserve"
    assert keep_reserve(str(path))
    assert path.stat().st_blocks * 512 >= SIZE
    assert not keep_reserve(str(tmp_path / "missing" / "reserve"))


def test_a_full_disk_is_known_by_number_and_by_words() -> None:
    """libgit2's errors have no number, and ours hide theirs behind a cause."""
    assert is_full(OSError(28, "x"))
    assert is_full(OSError(122, "x"))
    error = UnsafeError("a file could not be stored")
    error.__cause__ = OSError(28, "x")
    assert is_full(error)
    assert is_full(UnsafeError("failed to write: No space left on device"))
    assert not is_full(OSError(5, "x"))
