"""Many orphans out of one: what a killed run leaves, copied under other names, and damaged."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Callable

from support.project import LIVE

if TYPE_CHECKING:
    from pathlib import Path

    from support.project import Project

RUNS = "refs/ckpt-recover/runs/"


class Orphan:
    """One run whose dvc is dead, in the project ``project``."""

    def __init__(self, project: Project, record: Path) -> None:
        """Read what its record says."""
        self.project = project
        self.path = record
        self.value = json.loads(record.read_text(encoding="utf-8"))
        self.run_id: str = self.value["run_id"]
        self.name: str = self.value["name"]
        self.temp_dir = record.parent / self.value["temp_dir"]

    def save(self, **changes: object) -> None:
        """Change its record."""
        self.path.write_text(json.dumps({**self.value, **changes}), encoding="utf-8")

    def ref_path(self, kind: str) -> Path:
        """Return the file of its live or runs ref."""
        return self.project.path / ".git" / (kind + self.run_id)

    def copy(self, number: int) -> Orphan:
        """Return a copy under the name ``NAME-number``, with a stash commit of its own."""
        git = self.project.git
        name = f"{self.name}-{number}"
        baseline, stash = self.value["baseline"], self.value["stash_rev"]
        message = f"dvc-exp:{baseline}:{baseline}:{name}"
        rev = git("commit-tree", f"{stash}^{{tree}}", "-p", baseline, "-m", message)
        temp_dir = self.temp_dir.with_name(f"tmpcopy{number:04d}")
        shutil.copytree(self.temp_dir, temp_dir, symlinks=True)
        run_id = f"{temp_dir.name}-{rev[:12]}-{self.run_id.rpartition('-')[2]}"
        path = self.path.with_name(f"{run_id}.json")
        changes = {"run_id": run_id, "name": name, "stash_rev": rev, "temp_dir": str(temp_dir)}
        path.write_text(json.dumps({**self.value, **changes}), encoding="utf-8")
        git("update-ref", LIVE + run_id, git("rev-parse", LIVE + self.run_id))
        git("update-ref", RUNS + run_id, rev)
        return Orphan(self.project, path)


def tear_record(orphan: Orphan) -> None:
    """Half a record, and somebody removed the refs."""
    text = orphan.path.read_text(encoding="utf-8")
    orphan.path.write_text(text[: len(text) // 2], encoding="utf-8")
    for kind in (LIVE, RUNS):
        orphan.ref_path(kind).unlink()


def age_record(orphan: Orphan) -> None:
    """A record of a format that is not known, without refs."""
    orphan.save(format=99)
    for kind in (LIVE, RUNS):
        orphan.ref_path(kind).unlink()


def lose_commit(orphan: Orphan) -> None:
    """The live ref names a commit that is not there."""
    orphan.ref_path(LIVE).write_text("1" * 40 + "\n", encoding="ascii")


def empty_ref(orphan: Orphan) -> None:
    """The live ref is an empty file, as after a power cut."""
    orphan.ref_path(LIVE).write_bytes(b"")


def block_name(orphan: Orphan) -> None:
    """A ref stands where the experiment's would need a folder to be a file."""
    baseline = orphan.value["baseline"]
    ref = f"refs/exps/{baseline[:2]}/{baseline[2:]}/{orphan.name}/other"
    orphan.project.git("update-ref", ref, "HEAD")


def tear_object(orphan: Orphan) -> None:
    """An object that the newest checkpoint names has other bytes in the DVC cache."""
    git = orphan.project.git
    lock = git("show", f"{LIVE}{orphan.run_id}:dvc.lock")
    old = orphan.project.logged("checkpoint")[-1]["md5"]
    new = hashlib.md5(orphan.name.encode(), usedforsecurity=False).hexdigest()
    torn = orphan.project.outside / "torn.lock"
    torn.write_text(lock.replace(old, new) + "\n", encoding="utf-8")
    blob = git("hash-object", "-w", str(torn))
    tree = git("ls-tree", f"{LIVE}{orphan.run_id}")
    lines = [
        f"100644 blob {blob}\tdvc.lock" if line.endswith("\tdvc.lock") else line
        for line in tree.splitlines()
    ]
    sha = git("mktree", input="\n".join(lines) + "\n")
    message = git("log", "-1", "--format=%B", LIVE + orphan.run_id)
    commit = git("commit-tree", sha, "-p", f"{LIVE}{orphan.run_id}^", "-m", message)
    git("update-ref", LIVE + orphan.run_id, commit)
    top = orphan.project.path / ".dvc" / "cache"
    top = top / "files" / "md5" if (top / "files").exists() else top
    path = top / new[:2] / new[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    path.chmod(0o444)


def link_dir(orphan: Orphan) -> None:
    """The temp dir is a link to somewhere else."""
    elsewhere = orphan.project.outside / orphan.name
    orphan.temp_dir.rename(elsewhere)
    orphan.temp_dir.symlink_to(elsewhere)


def lose_repository(orphan: Orphan) -> None:
    """The run had finished, and the temp dir has lost its repository and with it the result."""
    orphan.save(reproduced=True)
    shutil.rmtree(orphan.temp_dir / ".git")


DAMAGES: tuple[Callable[[Orphan], None], ...] = (
    tear_record,
    age_record,
    lose_commit,
    empty_ref,
    block_name,
    tear_object,
    link_dir,
    lose_repository,
)
"""Each makes a run that cannot be recovered."""
