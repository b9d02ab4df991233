"""The experiment queue of a project, with its workers, which are ended by pid."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable

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
        self._again: Callable[[], None] = lambda: None

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
        self._again = lambda: self.start(*options, env=env)

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
        """Wait until ``count`` tasks ended, clean-up included.

        On a busy machine a worker may not answer in time its own question whether it is idle, and
        end with tasks still waiting (``TemporaryWorker.monitor``): it is started again then.
        """
        looked = time.monotonic()

        def over() -> bool:
            nonlocal looked
            if time.monotonic() > looked + 3:
                if not self.workers():
                    self._again()
                looked = time.monotonic()
            return self.ended() >= count

        try:
            wait_for(over, timeout, f"the end of {count} task(s)")
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
        found = []
        for process in self.processes():
            with suppress(psutil.Error):  # it has ended meanwhile
                if "queue-worker" in process.cmdline():
                    found.append(process)
        return found

    def end_workers(self) -> None:
        """Kill the workers and wait until they are gone; their runs go on."""
        workers = self.workers()
        for worker in workers:
            os.kill(worker.pid, signal.SIGKILL)
        psutil.wait_procs(workers, timeout=10)


def kept(project: Project, name: str = "run") -> list[int]:
    """Return the epochs of an experiment's checkpoints, each with the model that belongs to it."""
    tip = project.exps()[name]
    logged = {(entry["epoch"], entry["md5"]) for entry in project.logged()}
    epochs = []
    for sha in project.commits(tip)[:-1]:
        epoch = int(project.read(sha, "metrics.json").split('"epoch": ')[1].split(",")[0])
        lock = project.read(sha, "dvc.lock")
        assert any(md5 in lock for number, md5 in logged if number == epoch)
        epochs.append(epoch)
    assert "Experiment-Status: partial" in project.git("log", "-1", "--format=%B", tip)
    return epochs


def check_partial(queue: Queue, cause: str, name: str = "run") -> None:
    """Check what every end has in common: nothing is left but the experiment and DVC's records."""
    project = queue.project
    assert project.temp_dirs() == []
    assert not (project.path / ".dvc" / "tmp" / "ckpt-recover").exists()
    assert [ref for ref in project.refs() if ref.startswith("refs/ckpt-recover")] == []
    note = project.git("log", "-1", "--format=%B", project.exps()[name])
    assert f"Experiment-Cause: {cause}" in note
    assert f"Experiment-Task: {queue.tasks()[name]}" in note
    assert queue.info(name)["status"] == 4
    assert queue.info(name)["result_hash"] is None
    assert f"experiment '{name}' (Partial): {cause}" in queue.log(name)
    assert project.git("fsck", "--no-dangling") == ""
