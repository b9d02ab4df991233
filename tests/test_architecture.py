"""The layout of design.md: imports run downwards only, and DVC is known in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).resolve().parent.parent / "dvc_ckpt_recover"
DVC = {"dvc", "dvc_data", "dvc_objects", "dvc_task", "scmrepo", "celery", "kombu"}
LEVELS = [
    {"errors", "settings", "model", "failures"},
    {"patching", "durable", "formats"},
    {"dvc_api", "git", "runs"},
    {"checkpointing", "recovery", "resuming", "reporting"},
    {"activation"},
    {"cli", "__main__", "selftest"},
]
ALONE = {"startup", "trainer", "__init__"}
"""They run where nothing else of the package may be loaded."""


def part_of(path: Path) -> str:
    """Return the name of the part that a module belongs to."""
    return path.relative_to(PACKAGE).parts[0].replace(".py", "")


def level_of(part: str) -> int | None:
    """Return the level of a part, None for those that stand alone."""
    return next((number for number, parts in enumerate(LEVELS) if part in parts), None)


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the modules that a file imports, wherever in it, with the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno


MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_downwards(path: Path) -> None:
    """A module imports only its own level and those below it, and DVC only in dvc_api."""
    part = part_of(path)
    level = level_of(part)
    assert level is not None or part in ALONE, f"{part} has no level"
    for name, line in imports(path):
        top, _, rest = name.partition(".")
        assert top not in DVC or part == "dvc_api", f"{path}:{line} imports {name}"
        if top == PACKAGE.name and rest:
            other = rest.split(".")[0]
            assert_allowed(part, other, f"{path}:{line} imports {name}")


def assert_allowed(part: str, other: str, what: str) -> None:
    """Fail when ``part`` may not import ``other``."""
    mine, theirs = level_of(part), level_of(other)
    if part in ALONE:
        assert other == part or (part, other) in {
            ("startup", "activation"),
            ("__init__", "trainer"),
        }, what
    elif theirs is None:
        assert (part, other) in {("cli", "trainer"), ("activation", "trainer")}, what
    else:
        assert mine is not None, what
        assert theirs <= mine, what


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_are_short(path: Path) -> None:
    """A module past 350 lines has a second responsibility."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 350


def loaded_after(statement: str) -> set[str]:
    """Return the modules that a new Python has after ``statement``."""
    code = f"{statement}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_startup_imports_nothing() -> None:
    """A Python that never imports DVC gets two small modules and a finder, no more."""
    plain = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import os, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]);"
        "import dvc_ckpt_recover.startup as s; s.arm(); print(*sys.modules)"
    )
    armed = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(PACKAGE.parent)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert set(armed) - set(plain) == {"dvc_ckpt_recover", "dvc_ckpt_recover.startup"}


def test_the_trainer_loads_neither_dvc_nor_the_rest() -> None:
    """Calling make_checkpoint outside a run costs the trainer's own module and nothing else."""
    loaded = loaded_after("import dvc_ckpt_recover; dvc_ckpt_recover.make_checkpoint()")
    ours = {name for name in loaded if name.startswith("dvc_ckpt_recover.")}
    assert all(name.split(".")[1] in ALONE for name in ours), ours
    assert not {name.split(".")[0] for name in loaded} & DVC
