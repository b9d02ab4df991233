"""A checkpoint copied aside: all that is needed to finish it, also by a later process.

It counts from the moment its manifest is there, which is written last.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import asdict, dataclass
from typing import Any

from dvc_ckpt_recover.durable import make_private_dir, read_json
from dvc_ckpt_recover.errors import DamagedError

_MANIFEST = "ready.json"
_FORMAT = 1


class StagedGoneError(DamagedError):
    """What was copied aside is not all there any more, so it can never be stored."""


def check_copy(path: str, size: int) -> None:
    """Raise StagedGoneError unless the copy ``path`` has ``size`` bytes: copies are not synced."""
    try:
        found = os.stat(path).st_size
    except FileNotFoundError as exc:
        raise StagedGoneError(f"the copy {path} is gone") from exc
    if found != size:
        raise StagedGoneError(f"the copy {path} has {found} of {size} bytes, as after a power cut")


@dataclass(frozen=True)
class StagedFile:
    """One file of an output.

    Attributes:
        name: Path inside the output with ``/``; empty when the output is this file.
        size: Bytes.
        executable: Whether its owner may run it.
        aside: Its name in the staging folder; empty when ``oid`` is known already.
        oid: Its object, when it has not changed since the last checkpoint.
        stamp: What its status was, to know it again: size, mtime in ns, inode.
    """

    name: str
    size: int
    executable: bool
    aside: str = ""
    oid: str = ""
    stamp: tuple[int, ...] = ()


@dataclass(frozen=True)
class StagedOut:
    """One output; a folder has any number of files, a file has one."""

    repo_path: str
    def_path: str
    cached: bool
    folder: bool
    files: tuple[StagedFile, ...]


@dataclass(frozen=True)
class Staged:
    """One checkpoint that was copied aside.

    Attributes:
        folder: Where the copies are.
        stage: Address of the stage whose state it is.
        lock_path: Its lock file, relative to the Git root.
        stage_name: Its name in the lock file.
        entry: Its lock entry without outputs when it was running, else None.
        locks: Lock files by path, without stages that have not finished.
        drop: Paths that the commit must not have.
        outs: The outputs.
        state: ``ready`` or ``unproven``.
        keep: How many checkpoints the run keeps with this one; None for all.
        torn: Outputs that should be in it and are not whole.
    """

    folder: str
    stage: str
    lock_path: str
    stage_name: str
    entry: dict[str, Any] | None
    locks: dict[str, dict[str, Any]]
    drop: tuple[str, ...]
    outs: tuple[StagedOut, ...]
    state: str = "ready"
    keep: int | None = None
    torn: tuple[str, ...] = ()

    def mark_ready(self) -> None:
        """Write the manifest: from now on the death of any process loses nothing."""
        import json

        path = os.path.join(self.folder, _MANIFEST)
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            json.dump({"format": _FORMAT, **asdict(self)}, file, default=str)
        os.replace(f"{path}.tmp", path)

    def discard(self) -> None:
        """Remove the copies; the manifest first, so that half a folder never counts."""
        discard(self.folder)

    @classmethod
    def load(cls, folder: str) -> Staged:
        """Read a manifest. Raises FileNotFoundError, or DamagedError when it is no manifest."""
        value = read_json(os.path.join(folder, _MANIFEST))
        if value.pop("format", None) != _FORMAT:
            msg = f"{folder} was staged in another format"
            raise DamagedError(msg)
        try:
            outs = tuple(
                StagedOut(**{**out, "files": tuple(_file(file) for file in out["files"])})
                for out in value["outs"]
            )
            lists = {name: tuple(value.get(name) or ()) for name in ("drop", "torn")}
            value.update(folder=folder, outs=outs, **lists)
            return cls(**value)
        except (KeyError, TypeError) as exc:
            msg = f"{folder} has a damaged manifest ({exc})"
            raise DamagedError(msg) from exc


def _file(value: dict[str, Any]) -> StagedFile:
    file = StagedFile(**{**value, "stamp": tuple(value["stamp"])})
    if os.path.basename(file.aside) != file.aside:
        msg = f"a staged file has the path {file.aside!r}"
        raise DamagedError(msg)
    return file


def discard(folder: str) -> None:
    """Remove a staging folder, its manifest first."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, _MANIFEST))
    shutil.rmtree(folder, ignore_errors=True)


def new_folder(staging: str) -> str:
    """Make an empty folder for a snapshot, sorted behind those that are there."""
    taken = [int(name) for name in _names(staging) if name.isdigit()]
    return make_private_dir(os.path.join(staging, f"{max(taken, default=0) + 1:08d}"))


def _names(staging: str) -> list[str]:
    try:
        return sorted(os.listdir(staging))
    except FileNotFoundError:
        return []


def staged_of(staging: str) -> tuple[list[Staged], list[DamagedError]]:
    """Return what was copied aside and not yet stored, oldest first, and what cannot be read."""
    found, damaged = [], []
    for name in _names(staging):
        try:
            found.append(Staged.load(os.path.join(staging, name)))
        except (FileNotFoundError, NotADirectoryError):
            continue  # no manifest: the trainer was never told that it is safe
        except DamagedError as exc:
            damaged.append(exc)
    return found, damaged
