"""Run lint and tests on each supported DVC, in virtual environments of their own.

    python3 tests/matrix.py [--rows NAME,NAME] [--no-lint] [-- PYTEST ARGUMENTS]
    python3 tests/matrix.py --between [--no-lint] [-- PYTEST ARGUMENTS]
    python3 tests/matrix.py --demo

Needs only Python's standard library, git and a package index. The environments live in
.venvs/, get the built wheel (never the source tree), and are kept as long as what they
were made from is unchanged. The last line sums up all rows: "N passed, N failed, N skipped".
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
VENVS = ROOT / ".venvs"
TEST_TOOLS = ("pytest", "pytest-timeout", "scikit-learn")
LINT_TOOLS = (
    "ruff==0.17.6",
    "mypy==2.4.1",
    # What the package imports and what mypy would otherwise miss.
    "packaging",
    "ruamel.yaml",
    "types-networkx",
    "types-psutil",
)
NO_TESTS_COLLECTED = 5
print_lock = threading.Lock()


@dataclass(frozen=True)
class Row:
    """One supported combination.

    ``newest`` dates the index, which old releases need; ``tests`` are the files to run where
    another row of the same DVC runs them all.
    """

    name: str
    dvc: str
    pythons: tuple[str, ...]
    newest: str | None = None
    required: bool = False
    tools: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    @property
    def venv(self) -> Path:
        """Folder of the row's environment."""
        return VENVS / self.name

    def program(self, name: str) -> Path:
        """Return a program of the row's environment."""
        return self.venv / "bin" / name


CORE = tuple(
    f"tests/test_{name}.py"
    for name in ("architecture", "temp_run", "checkpoints", "resume", "status_doctor")
)
ROWS = (
    Row("dvc3.67-py3.11", "3.67.1", ("3.11",), required=True, tools=("dvclive",)),
    Row("dvc3.67-py3.13", "3.67.1", ("3.13",), tools=("dvclive",), tests=CORE),
    Row("dvc2.58-py3.11", "2.58.2", ("3.11",), newest="2023-06-10"),
    Row("dvc2.31-py3.9", "2.31.0", ("3.9",), newest="2022-11-20"),
)
TABLES = tuple(
    f"tests/test_{name}.py"
    for name in ("show", "show_damage", "show_living", "status_doctor", "temp_run")
)
# One release for each family of the places in DVC that the package hooks, see dvc_api/points.py.
BETWEEN = (
    Row("dvc2.33-py3.9", "2.33.2", ("3.9",), newest="2022-11-20", tests=TABLES),
    Row("dvc2.45-py3.9", "2.45.1", ("3.9",), newest="2023-03-01", tests=TABLES),
    Row("dvc2.52-py3.11", "2.52.0", ("3.11",), newest="2023-04-11", tests=TABLES),
    Row("dvc2.55-py3.11", "2.55.0", ("3.11",), newest="2023-05-04", tests=TABLES),
    Row("dvc3.30-py3.11", "3.30.1", ("3.11",), newest="2023-12-01", tests=TABLES),
)
DEMO = Row("demo", "3.67.1", ("3.13", "3.12", "3.11", "3.10", "3.9"), required=True)


@dataclass
class Count:
    """Outcome of one row or of all."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: Count) -> None:
        """Add the other's numbers to ours."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self) -> str:
        """Return the line that `make test` ends with."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class SetupError(Exception):
    """What was asked for cannot be set up; the message says what and why."""


def say(text: str) -> None:
    """Print whole texts, though rows run side by side."""
    with print_lock:
        print(text, flush=True)


def call(*command: str | Path, **options: object) -> None:
    """Run a set-up command; if it fails, raise with all that it said."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise SetupError(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def version_of(python: str | Path) -> str | None:
    """Return "3.11.7" if this is a Python that starts (a version manager's shim may not)."""
    ask = "import platform; print(platform.python_version())"
    try:
        done = subprocess.run(
            [str(python), "-c", ask], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def candidates(version: str) -> Iterator[str | Path]:
    """Yield where a Python "3.11" may be: this one, on PATH, pyenv's."""
    yield sys.executable
    yield f"python{version}"
    yield from sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)


def find_python(uv: str, row: Row) -> tuple[str, str]:
    """Return program and full version of the first of the row's Pythons that there is."""
    running = ".".join(map(str, sys.version_info[:2]))
    for wanted in sorted(row.pythons, key=lambda version: version != running):
        for python in candidates(wanted):
            found = version_of(python)
            if found and found.startswith(wanted + "."):
                return str(shutil.which(python) or python), found
    if not row.required:
        raise SetupError(f"no Python {' or '.join(row.pythons)} on this machine")
    call(uv, "python", "install", row.pythons[0])
    return row.pythons[0], row.pythons[0]


def find_uv() -> str:
    """Return a uv that starts: the one on PATH, else one installed for us alone."""
    helper = VENVS / "helper"
    for found in (shutil.which("uv"), helper / "bin" / "uv"):
        if found and Path(found).exists():
            starts = subprocess.run([found, "--version"], capture_output=True, check=False)
            if starts.returncode == 0:
                return str(found)
    call(sys.executable, "-m", "venv", "--clear", helper)
    call(helper / "bin" / "python", "-m", "pip", "install", "--quiet", "uv")
    return str(helper / "bin" / "uv")


def build_wheel(uv: str) -> Path:
    """Build the package and return its wheel."""
    folder = VENVS / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    call(uv, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def requirements(wheel: Path) -> list[str]:
    """Return what the wheel depends on, as its metadata has it."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    return [line for line in lines if line.startswith("Requires-")]


def prepare(uv: str, row: Row, wheel: Path) -> str:
    """Make or refresh the row's environment and return its Python's full version."""
    python, version = find_python(uv, row)
    stamp = row.venv / "made-from.json"
    made_from = json.dumps(
        [version, row.dvc, row.newest, TEST_TOOLS + row.tools, requirements(wheel)], indent=1
    )
    install = [uv, "pip", "install", "--quiet", "--python", row.program("python")]
    if stamp.exists() and stamp.read_text(encoding="utf-8") == made_from:
        call(*install, "--no-deps", "--reinstall-package", "dvc-ckpt-recover", wheel)
        return version
    shutil.rmtree(row.venv, ignore_errors=True)
    call(uv, "venv", "--quiet", "--python", python, row.venv)
    dated = ["--exclude-newer", row.newest] if row.newest else []
    call(*install, *dated, f"dvc=={row.dvc}", *TEST_TOOLS, *row.tools, wheel)
    stamp.write_text(made_from, encoding="utf-8")
    return version


def environment(row: Row) -> dict[str, str]:
    """Return an environment in which the row's programs, and no source tree, are found first."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env["PATH"] = os.pathsep.join([str(row.venv / "bin"), env.get("PATH", "")])
    env["MATRIX_ROW"] = row.name
    return env


def test(uv: str, row: Row, wheel: Path, arguments: Sequence[str]) -> Count:
    """Run the tests on one row, print the output when it ends, and return the numbers."""
    log = VENVS / f"log-{row.name}.txt"
    try:
        version = prepare(uv, row, wheel)
    except SetupError as error:
        say(f"== {row.name}: {'FAILED' if row.required else 'SKIPPED'}: {error}")
        return Count(failed=int(row.required))
    say(f"== {row.name}: DVC {row.dvc} on Python {version}, output in {log.relative_to(ROOT)}")
    report = VENVS / f"report-{row.name}.xml"
    report.unlink(missing_ok=True)
    # Not `python -m pytest`: it puts the source tree before the installed wheel.
    named = any(argument.startswith("tests/") for argument in arguments)
    command = [row.program("pytest"), f"--junitxml={report}", "--durations=12", *arguments]
    command += [] if named else row.tests
    with log.open("wb") as output:
        done = subprocess.run(
            list(map(str, command)),
            cwd=ROOT,
            env=environment(row),
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    say(f"== {row.name}\n{log.read_text(encoding='utf-8', errors='replace')}")
    return read_report(report, done.returncode)


def read_report(report: Path, returncode: int) -> Count:
    """Return pytest's numbers; an end without a report, or one that it calls bad, is a failure."""
    count = Count()
    if report.exists():
        for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314 - pytest's own
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0))
            count.add(Count(int(suite.get("tests", 0)) - failed - skipped, failed, skipped))
    if returncode not in (0, NO_TESTS_COLLECTED) and not count.failed:
        count.failed = 1
    return count


def lint(uv: str) -> bool:
    """Run ruff and mypy, print what they find, and return whether that is nothing."""
    tools = VENVS / "lint"
    stamp = tools / "made-from.json"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != json.dumps(LINT_TOOLS):
        shutil.rmtree(tools, ignore_errors=True)
        call(uv, "venv", "--quiet", "--python", sys.executable, tools)
        call(uv, "pip", "install", "--quiet", "--python", tools / "bin" / "python", *LINT_TOOLS)
        stamp.write_text(json.dumps(LINT_TOOLS), encoding="utf-8")
    clean = True
    for command in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]):
        done = subprocess.run(
            [str(tools / "bin" / command[0]), *command[1:]],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        clean = clean and done.returncode == 0
        verdict = "ok" if done.returncode == 0 else f"FAILED\n{done.stdout}{done.stderr}"
        say(f"== {' '.join(command)}: {verdict}")
    return clean


def demo(uv: str) -> int:
    """Install the wheel beside today's DVC and run fixtures/demo.py there."""
    prepare(uv, DEMO, build_wheel(uv))
    command = [str(DEMO.program("python")), str(ROOT / "fixtures" / "demo.py")]
    return subprocess.run(command, cwd=VENVS, env=environment(DEMO), check=False).returncode


def choose(names: str | None) -> list[Row]:
    """Return the rows of these names, the supported ones if there are none."""
    known = {row.name: row for row in (*ROWS, *BETWEEN)}
    unknown = set(names.split(",") if names else []) - set(known)
    if unknown:
        raise SetupError(f"no rows {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return [known[name] for name in names.split(",")] if names else list(ROWS)


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return our own options and pytest's, which come after `--`."""
    own, passed_on = list(arguments), []
    if "--" in own:
        cut = own.index("--")
        own, passed_on = own[:cut], own[cut + 1 :]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", help="which ones, with commas: " + ", ".join(r.name for r in (*ROWS, *BETWEEN))
    )
    parser.add_argument("--between", action="store_true", help="the releases between them")
    parser.add_argument("--no-lint", action="store_true", help="tests only")
    parser.add_argument("--lint", action="store_true", help="ruff and mypy only")
    parser.add_argument("--demo", action="store_true", help="kill a run and resume it")
    return parser.parse_args(own), passed_on


def main() -> int:
    """Do as the arguments say and return the exit code."""
    options, pytest_arguments = parse(sys.argv[1:])
    rows = list(BETWEEN) if options.between else choose(options.rows)
    VENVS.mkdir(exist_ok=True)
    uv = find_uv()
    if options.demo:
        return demo(uv)
    clean = options.no_lint or lint(uv)
    if options.lint:
        return int(not clean)
    wheel = build_wheel(uv)
    total = Count()
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        for count in pool.map(lambda row: test(uv, row, wheel, pytest_arguments), rows):
            total.add(count)
    if not clean:
        say("== lint FAILED, see above")
    say(str(total))
    return int(not clean or bool(total.failed) or not total.passed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SetupError as problem:
        sys.exit(str(problem))
