"""The table never breaks: a damaged entry costs at most its own row, and one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from support import DVC_VERSION, Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def kept(build_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with a partial experiment `good`, and what DVC noted of its run."""
    folder = tmp_path_factory.mktemp("kept")
    subprocess.run(["cp", "-a", str(build_once()), str(folder / "repo")], check=True)
    project = Project(folder / "repo", folder / "outside")
    project.killed("good")
    return project


@pytest.fixture
def project(kept: Project, tmp_path: Path) -> Project:
    """Return a copy of it to be damaged."""
    subprocess.run(["cp", "-a", str(kept.path), str(tmp_path / "repo")], check=True)
    return Project(tmp_path / "repo", tmp_path / "outside")


class Damaged:
    """A project to which damaged entries are added beside a good one.

    ``lines`` counts the lines that they may cost.
    """

    def __init__(self, project: Project) -> None:
        """Use ``project``."""
        self.project = project
        self.runs = project.path / ".dvc" / "tmp" / "exps" / "standalone" / "run"
        (self.good,) = self.runs.iterdir()
        self.info = (self.good / f"{self.good.name}.run").read_text(encoding="utf-8")
        head = project.git("rev-parse", "HEAD")
        self.exps = project.path / ".git" / "refs" / "exps" / head[:2] / head[2:]
        self.exps.mkdir(parents=True, exist_ok=True)
        self.lines = 0

    def add_info(self, number: int, content: str | None) -> Path:
        """Add a run to DVC's folder, whose info file holds ``content`` or is missing."""
        name = f"{number:040x}"
        (self.runs / name).mkdir()
        path = self.runs / name / f"{name}.run"
        if content is not None:
            path.write_text(content, encoding="utf-8")
        return path

    def add_running(self, number: int, *folders: str) -> None:
        """Add a run that DVC takes for running, in a temp dir of which ``folders`` are left."""
        root = self.runs.parent / f"tmpleft{number}"
        for folder in folders:
            (root / folder).mkdir(parents=True)
        info = json.loads(self.info)
        info.update(status=2, root_dir=str(root), name=f"left{number}")
        info.update(result_hash=None, result_ref=None)
        self.add_info(number, json.dumps(info))

    def damage_infos(self) -> None:
        """Add info files that are no info files."""
        contents = ["", self.info[: len(self.info) // 2], '{"a": 1}', "[]", None]
        for number, content in enumerate(contents, start=1):
            self.add_info(number, content)
        self.add_info(6, None).mkdir()
        (self.runs / "stray").write_text("x", encoding="ascii")
        self.lines += 7

    def damage_dirs(self) -> None:
        """Add running entries without a dir, with an empty one, with half of one."""
        self.add_running(11)
        self.add_running(12, ".git")
        self.add_running(13, ".git", ".dvc")
        self.lines += 1  # two were left behind

    def damage_locks(self) -> None:
        """Damage DVC's lock files; looking needs none of them."""
        for folder in (".dvc/tmp", ".dvc/tmp/exps"):
            (self.project.path / folder / "rwlock").write_text("{x", encoding="ascii")
        if (2, 32) <= DVC_VERSION < (2, 55):
            self.lines += 2  # DVC itself repairs one and says so

    def damage_refs(self) -> None:
        """Add experiments that are empty, garbage, of a commit that is not there."""
        for name, content in {"empty": "", "garbage": "x\n", "missing": "1" * 40 + "\n"}.items():
            (self.exps / name).write_text(content, encoding="ascii")
            self.lines += 1

    def damage_commits(self) -> None:
        """Add experiments of which the tip, or the commit before it, is an empty file."""
        for victim in (1, 0):
            made = [self.project.git("rev-parse", "HEAD")]
            for number in range(2):
                text = f"{number} of {victim}"
                made.append(
                    self.project.git("commit-tree", "HEAD^{tree}", "-p", made[-1], "-m", text)
                )
            (self.exps / f"damaged{victim}").write_text(made[-1] + "\n", encoding="ascii")
            sha = made[1 + victim]
            path = self.project.path / ".git" / "objects" / sha[:2] / sha[2:]
            path.chmod(0o644)
            path.write_bytes(b"")
            self.lines += 1

    def damage_ours(self) -> None:
        """Add records of ours that are none, and refs of runs of which nothing else is known."""
        records = self.project.path / ".dvc" / "tmp" / "ckpt-recover" / "runs"
        records.mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(["", '{"format": 99}', "[]"]):
            path = records / f"tmpabcdef{number}-123456789012-12345678.json"
            path.write_text(content, encoding="ascii")
            self.lines += 1
        for kind in ("live", "runs"):
            folder = self.project.path / ".git" / "refs" / "ckpt-recover" / kind
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "tmpabcdef8-123456789012-12345678").write_text("", encoding="ascii")
            (folder / "tmpabcdef9-123456789012-12345678").write_text("1" * 40, encoding="ascii")


def shown(done: subprocess.CompletedProcess[str]) -> tuple[list[str], list[str]]:
    """Return the rows of a CSV table, and what was said beside it."""
    lines = done.stdout.splitlines()
    rows = [line for line in lines if line.count(",") >= 8]
    return rows, [line for line in lines if line not in rows]


def test_a_damaged_entry_costs_its_own_row(project: Project) -> None:
    """Exit 0, all other rows, one line for each that is lost, and nothing is Running."""
    damaged = Damaged(project)
    damaged.damage_infos()
    damaged.damage_dirs()
    damaged.damage_locks()
    damaged.damage_refs()
    damaged.damage_commits()
    damaged.damage_ours()
    done = project.dvc("exp", "show", "--csv")
    rows, others = shown(done)
    names = [row.split(",")[0] for row in rows]
    assert done.returncode == 0, done.stdout
    assert "checkpoint_base" in rows[names.index("good") + 2]
    assert "Running" not in done.stdout
    assert {"left12", "left13"} <= set(names)
    assert all("Failed" in row for row in rows if row.startswith("left"))
    assert len(others) == damaged.lines, others
    assert "dvc exp recover" in others[-1]
    status = project.dvc("queue", "status")
    assert status.returncode == 0, status.stdout


@pytest.mark.skipif(
    os.name == "nt" or os.getuid() != 0 or shutil.which("setpriv") is None,
    reason="needs root, and setpriv to give up root's right to read everything",
)
def test_files_of_another_user(project: Project) -> None:
    """What may not be read costs its own row."""
    damaged = Damaged(project)
    ref = damaged.exps / "theirs"
    ref.write_text(project.exps()["good"] + "\n", encoding="ascii")
    for path in (damaged.add_info(1, damaged.info), ref):
        path.chmod(0)
        os.chown(path, 12345, 12345)
    limited = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all")
    done = project.run(*limited, "dvc", "exp", "show", "--csv", env=None, check=False, timeout=120)
    rows, others = shown(done)
    assert done.returncode == 0, done.stdout
    assert "good" in [row.split(",")[0] for row in rows]
    assert len(others) == 2, others
