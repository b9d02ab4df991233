"""Fixtures: the digits pipeline, built once a session and copied for each test."""

from __future__ import annotations

import os
import subprocess
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import pytest
from digits.build import build
from support import DVC_VERSION, Project
from support.mini import build_mini
from support.queue import Queue
from support.tiny import build_tiny

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.selftest import powercut

ROOT = Path(__file__).resolve().parent.parent


def pytest_report_header() -> str:
    """Say which DVC is tested, and which copy of the package."""
    return f"dvc {metadata.version('dvc')}; dvc_ckpt_recover from {package_folder()}"


def pytest_configure() -> None:
    """Refuse to test the source tree where the built wheel is meant."""
    if "MATRIX_ROW" in os.environ and package_folder() == ROOT / "dvc_ckpt_recover":
        raise pytest.UsageError("the source tree is imported instead of the installed wheel")


def package_folder() -> Path:
    """Return the folder that the package is imported from, without importing it."""
    spec = util.find_spec("dvc_ckpt_recover")
    return Path(spec.origin).parent if spec and spec.origin else Path("nowhere")


@pytest.fixture(scope="session")
def build_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that builds a project with `build`'s options, once for each set of them.

    Its result is the repo's folder, to be copied and never to be changed.
    """
    built: dict[str, Path] = {}

    def get(**options: Any) -> Path:
        key = repr(sorted(options.items()))
        if key not in built:
            repo = tmp_path_factory.mktemp("built") / "repo"
            build(repo, **options)
            built[key] = repo
        return built[key]

    return get


@pytest.fixture(scope="session")
def baseline(build_once: Callable[..., Path]) -> Path:
    """Return the digits project with a committed baseline of an untrained model."""
    return build_once()


@pytest.fixture
def make_project(
    build_once: Callable[..., Path], tmp_path: Path
) -> Iterator[Callable[..., Project]]:
    """Return a function that makes a project of one's own, with `build`'s options."""
    made: list[Project] = []

    def make(**options: Any) -> Project:
        number = len(made) or ""
        repo = tmp_path / f"repo{number}"
        subprocess.run(["cp", "-a", str(build_once(**options)), str(repo)], check=True)
        path = repo / options.get("subdir", "")
        made.append(Project(path, tmp_path / f"outside{number}"))
        return made[-1]

    yield make
    for project in made:
        project.end_all()


@pytest.fixture
def project(make_project: Callable[..., Project]) -> Project:
    """Return a copy of the baseline, with the package as installed."""
    return make_project()


@pytest.fixture
def queue(project: Project) -> Iterator[Queue]:
    """Return the queue of a project; its processes are ended with the test."""
    with Queue(project) as queue:
        yield queue


@pytest.fixture
def plain_project(project: Project) -> Project:
    """Return a copy of the baseline, with the package turned off."""
    project.env["DVC_CKPT_RECOVER"] = "0"
    return project


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


@pytest.fixture(scope="session")
def mini_repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the small project, to be copied."""
    marker = "checkpoint" if DVC_VERSION < (3,) else "persist"
    return build_mini(tmp_path_factory.mktemp("mini") / "repo", marker)


@pytest.fixture
def mini(mini_repo: Path, tmp_path: Path) -> Iterator[Project]:
    """Return a copy of the small project."""
    subprocess.run(["cp", "-a", str(mini_repo), str(tmp_path / "repo")], check=True)
    project = Project(tmp_path / "repo", tmp_path / "outside")
    yield project
    project.end_all()


@pytest.fixture(scope="session")
def why_no_cut(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return why the power cannot be cut here, or nothing."""
    from dvc_ckpt_recover.selftest import powercut

    return powercut.why_not(str(tmp_path_factory.mktemp("try")))


@pytest.fixture
def disk(tmp_path: Path, why_no_cut: str) -> Iterator[powercut.Disk]:
    """Return a disk whose power can be cut."""
    from dvc_ckpt_recover.selftest import powercut

    if why_no_cut:
        pytest.skip(why_no_cut)
    with powercut.disk(str(tmp_path / "disk")) as made:
        yield made
