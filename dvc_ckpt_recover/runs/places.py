"""Where the files of a run lie. All of it may vanish: refs and trailers suffice to recover."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from dataclasses import dataclass

from dvc_ckpt_recover.durable import make_private_dir

_FOLDER = "ckpt-recover"
_EXPS = "exps"
_OLD = 86400
"""Seconds after which nobody is at work on a file or folder that was made aside."""


def run_id_of(temp_dir: str, stash_rev: str) -> str:
    """Return the id of a run: its temp dir's name, the start of its stash commit, its project.

    The same for each try of a set-up that DVC repeats; ``mkdtemp`` names may come back years later,
    together with the commit they do not. All projects and work trees of a Git repository share
    its refs, so that the id must tell whose run it is.
    """
    places = Places.of_temp_dir(temp_dir)
    project = f"-{places.project}" if places else ""
    return f"{os.path.basename(temp_dir)}-{stash_rev[:12]}{project}"


@dataclass(frozen=True)
class Places:
    """The folder of this package in one DVC project.

    Attributes:
        dvc_tmp: The project's ``.dvc/tmp``.
    """

    dvc_tmp: str

    @classmethod
    def of_temp_dir(cls, temp_dir: str) -> Places | None:
        """Return the places for a temp dir below ``.dvc/tmp/exps``, or None for another folder."""
        folder, name = os.path.split(os.path.abspath(temp_dir))
        while name:
            if os.path.basename(folder) == _EXPS:
                return cls(os.path.dirname(folder))
            folder, name = os.path.split(folder)
        return None

    @property
    def project(self) -> str:
        """Return what tells this project from others that share its Git repository."""
        path = os.path.realpath(self.dvc_tmp)
        return hashlib.sha1(os.fsencode(path), usedforsecurity=False).hexdigest()[:8]

    def owns(self, run_id: str) -> bool:
        """Return whether a run of that id was started in this project, at this path."""
        return run_id.endswith(f"-{self.project}")

    @property
    def root(self) -> str:
        """Return the folder; it may not exist."""
        return os.path.join(self.dvc_tmp, _FOLDER)

    @property
    def damaged(self) -> str:
        """Return the folder for objects of the DVC cache that have wrong bytes."""
        return os.path.join(self.root, "damaged")

    @property
    def exps(self) -> str:
        """Return DVC's folder of temp dirs."""
        return os.path.join(self.dvc_tmp, _EXPS)

    def _path(self, kind: str, name: str) -> str:
        return os.path.join(self.root, kind, name)

    def record(self, run_id: str) -> str:
        """Return the path of a run's record."""
        return self._path("runs", f"{run_id}.json")

    def lease(self, run_id: str) -> str:
        """Return the path of a run's lease."""
        return self._path("runs", f"{run_id}.lease")

    def receipt(self, run_id: str) -> str:
        """Return the path of a run's receipt."""
        return self._path("receipts", f"{run_id}.json")

    def reserve(self, run_id: str) -> str:
        """Return the path of the disk space that is kept for a run's end."""
        return self._path("runs", f"{run_id}.reserve")

    def staging(self, run_id: str) -> str:
        """Return the folder where a run's bytes are copied aside."""
        return self._path("staging", run_id)

    def runs(self) -> list[str]:
        """Return the ids of all runs that have a record, sorted."""
        try:
            names = os.listdir(os.path.join(self.root, "runs"))
        except FileNotFoundError:
            return []
        return sorted(name[: -len(".json")] for name in names if name.endswith(".json"))

    def strays(self) -> list[str]:
        """Return the ids of runs that have anything but no record."""
        found = set()
        kinds = (("runs", ".lease"), ("runs", ".reserve"), ("receipts", ".json"), ("staging", ""))
        for kind, suffix in kinds:
            with contextlib.suppress(OSError):
                names = os.listdir(os.path.join(self.root, kind))
                found |= {name.removesuffix(suffix) for name in names if name.endswith(suffix)}
        return sorted(found.difference(self.runs()))

    def remnants(self) -> list[str]:
        """Return files and folders of killed writes and fetches, too old to be anybody's."""
        found = []
        for folder in (self.root, os.path.join(self.root, "runs"), self._path("receipts", "")):
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                found += [
                    entry.path
                    for entry in entries
                    if entry.name.endswith(".tmp") and time.time() - entry.stat().st_mtime > _OLD
                ]
        return found

    def make(self) -> None:
        """Make the folders, for this user alone."""
        for kind in ("", "runs", "receipts", "staging"):
            make_private_dir(os.path.join(self.root, kind))

    def drop_empty(self) -> None:
        """Leave no empty folders behind."""
        for kind in ("staging", "receipts", "runs", ""):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(self.root, kind))
