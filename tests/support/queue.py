"""The experiment queue of a project, with its workers, which are ended by pid."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil

from support.project import Project, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

RUN_TASK = re.compile(r"run_exp\[[^]]*\] (?:succeeded in ([0-9.]+)s|raised)")


class Queue:
    """The queue of ``project``; use it as a context, so that no worker is left behind."""

    def __init__(self, project: Project) -> None:
        """Use the project's queue."""
        self.project = project
        self.exps = project.path / ".dvc" / "tmp" / "exps"

    def __enter__(self) -> Self:
        """Return the queue."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what the queue started."""
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()

    def put(self, *names: str, options: tuple[str, ...] = ()) -> None:
        """Queue a run for each name."""
        for name in names:
            self.project.dvc("exp", "run", "--queue", "-n", name, *options, check=True)

    def start(self, *options: str, env: dict[str, str] | None = None) -> None:
        """Start workers, whose tasks have the environment ``env``."""
        started = self.project.start("queue", "start", *options, env=env)
        if started.wait(60):
            raise RuntimeError(started.text())

    def tasks(self) -> dict[str, str]:
        """Return the tasks that were started: name of the run -> DVC's name of the task."""
        infos = [json.loads(path.read_text("utf-8")) for path in self.infos()]
        return {info["name"]: path.stem for path, info in zip(self.infos(), infos)}

    def infos(self) -> list[Path]:
        """Return DVC's info files of the tasks."""
        return sorted(path for path in self.exps.glob("run/*/*.run") if path.stat().st_size)

    def file(self, name: str, ending: str) -> Path:
        """Return a file of a run's task: ``.json``, ``.out``, ``.pid`` or ``.run``."""
        task = wait_for(lambda: self.tasks().get(name), what=f"the task of {name}")
        return self.exps / "run" / task / f"{task}{ending}"

    def info(self, name: str) -> dict[str, Any]:
        """Return DVC's info file of a run."""
        found: dict[str, Any] = json.loads(self.file(name, ".run").read_text("utf-8"))
        return found

    def log(self, name: str) -> str:
        """Return the log of a run."""
        return self.file(name, ".out").read_text("utf-8")

    def runner(self, name: str) -> int:
        """Return the pid of the ``dvc exp exec-run`` of a run, once it was started."""
        path = self.file(name, ".pid")
        wait_for(lambda: path.exists() and path.read_text("ascii"), what=str(path))
        return int(path.read_text("ascii"))

    def worker_log(self) -> str:
        """Return what the workers said."""
        logs = sorted(self.exps.glob("celery/*.out"))
        return "".join(log.read_text("utf-8", errors="replace") for log in logs)

    def ended(self) -> int:
        """Return how many tasks the workers say they ended."""
        return len(RUN_TASK.findall(self.worker_log()))

    def seconds(self) -> list[float]:
        """Return how long each task took, in seconds, by the workers' own clock."""
        return [float(text) for text in RUN_TASK.findall(self.worker_log()) if text]

    def wait(self, count: int, timeout: float = 90) -> None:
        """Wait until ``count`` tasks ended, clean-up included."""
        try:
            wait_for(lambda: self.ended() >= count, timeout, f"the end of {count} task(s)")
        except TimeoutError as exc:
            raise TimeoutError(f"{exc}\n{self.worker_log()}") from None

    def states(self) -> dict[str, str]:
        """Return what ``dvc queue status`` says of each run."""
        said = self.project.dvc("queue", "status", check=True).stdout
        rows = (line.split() for line in said.splitlines() if re.match(r"[0-9a-f]{7} ", line))
        return {row[1]: row[-1] for row in rows}

    def processes(self) -> list[psutil.Process]:
        """Return the workers, runners and trainers of this project that live."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                alive = process.status() != psutil.STATUS_ZOMBIE
                if alive and process.environ().get("FIXTURE_LOG") == str(self.project.log):
                    found.append(process)
        return found

    def workers(self) -> list[psutil.Process]:
        """Return the processes of the workers."""
        return [each for each in self.processes() if "queue-worker" in each.cmdline()]

    def end_workers(self) -> None:
        """Kill the workers and wait until they are gone; their runs go on."""
        workers = self.workers()
        for worker in workers:
            os.kill(worker.pid, signal.SIGKILL)
        psutil.wait_procs(workers, timeout=10)
