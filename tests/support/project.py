"""A DVC project that tests drive through real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from support.table import Row, flatten

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
BIN = Path(sys.executable).parent
LIVE = "refs/ckpt-recover/live/"
EXPERIMENT_REF = re.compile(r"refs/exps/[0-9a-f]{2}/[0-9a-f]{38}/(.+)")


def wait_for(predicate: Callable[[], T], timeout: float = 60, what: str = "") -> T:
    """Return the first true value of ``predicate()``; after ``timeout`` seconds raise."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        value = predicate()
        if value:
            return value
        time.sleep(0.02)
    raise TimeoutError(f"{what or predicate} did not come true within {timeout} s")


def take_signals() -> None:
    """Let the child be ended: background shells ignore SIGINT, and ``nohup`` SIGHUP."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Started(subprocess.Popen):  # type: ignore[type-arg]
    """A process in a session and process group of its own, whose id is ``pid``.

    Both outputs go to the file ``output``, not to a pipe, which a process left behind would
    keep open for ever.
    """

    def __init__(self, command: list[str], output: Path, cwd: Path, env: Mapping[str, str]) -> None:
        """Start it."""
        self.output = output
        with output.open("wb") as stream:
            super().__init__(
                command,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=take_signals,
            )

    def text(self) -> str:
        """Return what it printed up to now."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def signal_group(self, number: int) -> None:
        """Send a signal to all that is left of the group, the started process first of all."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class Project:
    """A project in ``path`` (DVC's root), with a folder ``outside`` of Git for what must survive.

    ``env`` is added to the environment of each process started here.
    """

    def __init__(self, path: Path, outside: Path) -> None:
        """Use an existing project."""
        self.path = path
        self.outside = outside
        self.outside.mkdir(parents=True, exist_ok=True)
        self.log = outside / "log.jsonl"
        self.mark = outside / "mark"
        self.env: dict[str, str] = {"FIXTURE_LOG": str(self.log), "FIXTURE_MARK": str(self.mark)}
        self.started: list[Started] = []

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment for a process: ours, isolated from the user's settings."""
        home = self.outside / "home"
        home.mkdir(exist_ok=True)
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DVC_", "GIT_", "FIXTURE_")) and name != "PYTHONPATH"
        }
        isolated = {
            "PATH": os.pathsep.join([str(BIN), os.environ.get("PATH", "")]),
            "HOME": str(home),
            "SHELL": "/bin/sh",
            "DVC_NO_ANALYTICS": "1",
            "DVC_SITE_CACHE_DIR": str(home / "site-cache"),
            # No line of a message is broken where a test looks for it.
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }
        return {**inherited, **isolated, **self.env, **(extra or {})}

    def start(self, *args: str, env: Mapping[str, str] | None = None) -> Started:
        """Start `dvc ARGS` and return at once."""
        return self.start_program(str(BIN / "dvc"), *args, env=env)

    def start_program(self, *command: str, env: Mapping[str, str] | None = None) -> Started:
        """Start any program in the project; it is ended with the test."""
        output = self.outside / f"output-{len(self.started)}.txt"
        started = Started(list(command), output, self.path, self.environment(env))
        self.started.append(started)
        return started

    def dvc(
        self,
        *args: str,
        env: Mapping[str, str] | None = None,
        check: bool = False,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run `dvc ARGS` to its end; standard error is part of ``stdout``, in order.

        With ``check`` a bad exit raises, with the output in its text.
        """
        return self.run(str(BIN / "dvc"), *args, env=env, check=check, timeout=timeout)

    def python(
        self, *args: str, env: Mapping[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run this interpreter with ``args`` to its end, in the project, and demand success."""
        return self.run(sys.executable, *args, env=env, check=True, timeout=timeout)

    def run(
        self, *command: str, env: Mapping[str, str] | None, check: bool, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        started = self.start_program(*command, env=env)
        try:
            code = started.wait(timeout)
        except subprocess.TimeoutExpired:
            started.signal_group(signal.SIGKILL)
            started.wait()
            raise TimeoutError(f"{' '.join(command)}: {timeout} s\n{started.text()}") from None
        if check and code:
            raise RuntimeError(f"{' '.join(command)}: exit {code}\n{started.text()}")
        return subprocess.CompletedProcess(list(command), code, started.text(), "")

    def git(self, *args: str, input: str | None = None) -> str:  # noqa: A002 - as in subprocess
        """Run git, with ``input`` on its stdin; return what it prints, without the last newline."""
        done = subprocess.run(
            ["git", *args],
            cwd=self.path,
            env=self.environment(),
            input=input,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"git {' '.join(args)}: exit {done.returncode}\n{done.stderr}")
        return done.stdout.rstrip("\n")

    def refs(self) -> dict[str, str]:
        """Return every ref of the repo with its commit."""
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def exps(self) -> dict[str, str]:
        """Return the experiments, name to commit: no exec refs, no stashes."""
        named = ((EXPERIMENT_REF.fullmatch(ref), sha) for ref, sha in self.refs().items())
        return {match.group(1): sha for match, sha in named if match}

    def commits(self, tip: str, base: str = "main") -> list[str]:
        """Return the commits after ``base`` up to ``tip``, oldest first."""
        return self.git("rev-list", "--reverse", f"{base}..{tip}").split()

    def live_commits(self) -> list[str]:
        """Return the ready checkpoints of the one run that lives, oldest first."""
        tips = [
            sha for ref, sha in self.refs().items() if ref.startswith("refs/ckpt-recover/live/")
        ]
        return self.commits(tips[0]) if tips else []

    def read(self, rev: str, path: str) -> str:
        """Return a file of a commit; ``path`` is relative to the project."""
        return self.git("show", f"{rev}:./{path}")

    def temp_dirs(self) -> list[Path]:
        """Return the temp dirs of runs that are still there."""
        folder = self.path / ".dvc" / "tmp" / "exps"
        found = [*folder.glob("tmp*"), *folder.glob("standalone/tmp*")]
        return sorted(path for path in found if path.is_dir())

    def show_json(self, *args: str) -> Any:
        """Return what `dvc exp show --json ARGS` prints, parsed, whatever it says beside it."""
        done = subprocess.run(
            [str(BIN / "dvc"), "exp", "show", "--json", *args],
            cwd=self.path,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"exp show: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def rows(self, *args: str) -> list[Row]:
        """Return the table's rows, alike on all versions of DVC."""
        return flatten(self.show_json(*args))

    def killed(  # noqa: PLR0913 - each is one trait of the death, all but the name optional
        self,
        name: str,
        *options: str,
        at: int = 4,
        cause: str = "sigkill",
        stage: str = "train",
        torn: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `dvc exp run --temp -n NAME OPTIONS`, whose stage dies during epoch ``at``."""
        dying = self.dying(at=at, cause=cause, stage=stage, torn=torn)
        return self.dvc("exp", "run", "--temp", "-n", name, *options, env={**dying, **(env or {})})

    @staticmethod
    def dying(
        *, at: int = 4, cause: str = "sigkill", stage: str = "train", torn: bool = True
    ) -> dict[str, str]:
        """Return the environment that makes a stage die; causes are in mishap.py."""
        return {
            "FIXTURE_DIE_AT": str(at),
            "FIXTURE_DIE_CAUSE": cause,
            "FIXTURE_DIE_STAGE": stage,
            "FIXTURE_DIE_TORN": str(int(torn)),
        }

    def marked_pid(self, timeout: float = 60) -> int:
        """Wait until a stage hangs or is about to die, and return its pid."""
        wait_for(self.mark.exists, timeout, "a stage's mark")
        return int(self.mark.read_text(encoding="ascii"))

    def logged(self, event: str = "epoch") -> list[dict[str, Any]]:
        """Return the trainer's lines of an event: ``epoch`` (written) or ``checkpoint`` (taken)."""
        if not self.log.exists():
            return []
        entries = map(json.loads, self.log.read_text(encoding="utf-8").splitlines())
        return [entry for entry in entries if entry["event"] == event]

    def epochs(self, event: str = "epoch") -> list[int]:
        """Return the epochs that were logged, in order, over all runs."""
        return [entry["epoch"] for entry in self.logged(event)]

    def end_all(self) -> None:
        """Kill what is left of the process groups started here."""
        for started in self.started:
            started.signal_group(signal.SIGKILL)
            started.wait()
