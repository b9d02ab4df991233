"""Real runs, killed at moments from a logged seed, judged by what the trainer wrote outside."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from contextlib import suppress
from hashlib import md5
from typing import TYPE_CHECKING, Any, Callable

import psutil
import pytest
from support import DVC_VERSION, wait_for
from support.queue import Queue

if TYPE_CHECKING:
    from support import Project

pytestmark = [pytest.mark.proof, pytest.mark.timeout(4 * 3600)]
CACHE = ".dvc/cache" if DVC_VERSION < (3,) else ".dvc/cache/files/md5"
ROUNDS = int(os.environ.get("SOAK_ROUNDS", "200"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
FRESH = 25
"""Rounds in one project; then a new one is made, so that none grows slow."""


class Soak:
    """Rounds in one project.

    Args:
        project: The project.
        chance: Where all moments and victims come from.
    """

    def __init__(self, project: Project, chance: random.Random) -> None:
        self.project = project
        self.chance = chance
        self.seen: Counter[str] = Counter()

    def round(self, number: int) -> None:
        """Start a run, kill a part of it, recover it (perhaps killed too), and judge."""
        name = f"round-{number}"
        queued = self.chance.random() < 0.3
        victim = self.chance.choice(
            ["trainer", "runner", "worker", "all"] if queued else ["trainer", "dvc", "group"]
        )
        delay = self.chance.uniform(0.0, 4.0)
        what = f"{name}: {'queue' if queued else 'temp'}, {victim} after {delay:.2f} s"
        (self._queue if queued else self._temp)(name, number, victim, delay)
        for process in self._processes():
            with suppress(psutil.Error):
                process.kill()
        wait_for(lambda: not self._processes(), what="the end of all processes")
        if self.chance.random() < 0.3:
            recovery = self.project.start("exp", "recover")
            time.sleep(self.chance.uniform(0.5, 3.0))
            recovery.signal_group(signal.SIGKILL)
            recovery.wait()
            what += ", recovery killed"
        done = self.project.dvc("exp", "recover")
        print(what, "|", done.stdout.strip().replace("\n", " / ")[:200], flush=True)
        self._judge(f"{what}\n{done.stdout}")
        assert done.returncode == 0, f"{what}\n{done.stdout}"
        self.seen[victim] += 1

    def _options(self, number: int) -> tuple[str, ...]:
        return ("-S", f"seed={number + 1000 * SEED}")

    def _temp(self, name: str, number: int, victim: str, delay: float) -> None:
        run = self.project.start("exp", "run", "--temp", "-n", name, *self._options(number))
        self._wait_for_training(delay, run)
        if victim == "trainer":
            self._kill_trainer()
            with suppress(Exception):
                run.wait(60)
        elif victim == "dvc":
            run.kill()
            time.sleep(self.chance.uniform(0, 1))
        run.signal_group(signal.SIGKILL)
        run.wait()

    def _queue(self, name: str, number: int, victim: str, delay: float) -> None:
        with Queue(self.project) as queue:
            queue.put(name, options=self._options(number))
            queue.start()
            self._wait_for_training(delay, None)
            words = {"runner": "exec-run", "worker": "queue-worker"}.get(victim)
            if victim == "trainer":
                self._kill_trainer()
            for process in queue.processes():
                with suppress(psutil.Error):
                    if victim == "all" or (words and words in process.cmdline()):
                        process.kill()
            if victim != "all":
                time.sleep(self.chance.uniform(0, 2))

    def _wait_for_training(self, delay: float, run: Any) -> None:
        """Wait for most rounds until the trainer writes, then for a moment of the seed."""
        if self.chance.random() < 0.8:
            before = len(self.project.logged())
            with suppress(TimeoutError):
                wait_for(
                    lambda: len(self.project.logged()) > before or (run and run.poll() is not None),
                    15,
                )
            delay /= 2
        time.sleep(delay)

    def _kill_trainer(self) -> None:
        for process in self._processes():
            with suppress(psutil.Error):
                if "train.py" in process.cmdline():
                    process.kill()

    def _processes(self) -> list[psutil.Process]:
        return Queue(self.project).processes()

    def _judge(self, what: str) -> None:
        """Ask of every run up to now, since a worker may have taken a task of an earlier round."""
        tips = self.project.exps()
        told: dict[str, list[dict[str, Any]]] = {}
        for entry in self.project.logged("checkpoint"):
            told.setdefault(entry["run"], []).append(entry)
        for run, entries in told.items():
            # DVC 2.31 does not tell a trainer its run's name.
            mine = rf"{run}(-partial(-\d+)?)?" if run else ".*"
            own = [name for name in tips if re.fullmatch(mine, name)]
            kept = {oid for name in own for oid in self._kept(name, tips[name], entries)}
            for entry in entries:
                assert entry["md5"] in kept, f"lost: {entry}\n{what}\n{own}: {kept}"
        self._judge_table(what, tips)
        lines = self.project.git("fsck", "--no-dangling", "--no-progress")
        assert not lines, f"{lines}\n{what}"
        again = self.project.dvc("exp", "recover")
        assert "nothing to recover" in again.stdout, f"{again.stdout}\n{what}"

    def _judge_table(self, what: str, tips: dict[str, str]) -> None:
        """Compare each row's state with the commit that it stands for; nobody is alive."""
        rows = {row["name"]: row for row in self.project.rows() if row["kind"] == "experiment"}
        assert set(tips) <= set(rows), f"{set(tips) - set(rows)} not in the table\n{what}"
        for name, row in rows.items():
            state = row["state"]
            if name in tips:
                wanted = {"Partial"} if self._is_partial(tips[name]) else {"Success", None}
            else:
                wanted = {"Failed", "Queued"}
            assert state in wanted, f"{name} is {state}, not {wanted}\n{what}"

    def _is_partial(self, tip: str) -> bool:
        return "Experiment-Status: partial" in self.project.git("log", "-1", "--format=%B", tip)

    def _kept(self, name: str, tip: str, told: list[dict[str, Any]]) -> set[str]:
        """Return the models of an experiment whose bytes in the cache are right.

        One that finished is plain DVC's: its last state stands for all that its trainer told.
        """
        kept = {self._model(commit) for commit in self.project.commits(tip)} - {None}
        if not self._is_partial(tip):
            lock = self.project.read(tip, "dvc.lock")
            assert "# unfinished" not in lock, f"{name} passes for finished"
            assert "evaluate" in lock, f"{name} passes for finished"
            last = {entry["pid"] for entry in told if entry["md5"] == self._model(tip)}
            kept |= {entry["md5"] for entry in told if entry["pid"] in last}
        return {oid for oid in kept if oid}

    def _model(self, commit: str) -> str | None:
        """Return the model that a commit's lock file names, whose bytes are proven."""
        lock = self.project.read(commit, "dvc.lock")
        found = re.search(r"path: model\S*\n(?:\s+hash: md5\n)?\s+md5: (\w{32})", lock)
        if found is None:
            return None
        path = self.project.path / CACHE / found[1][:2] / found[1][2:]
        assert md5(path.read_bytes()).hexdigest() == found[1], f"torn: {path}"
        return found[1]


def test_soak(make_project: Callable[..., Project]) -> None:
    """Whoever dies whenever: what the trainer was told is there, and no run passes for another."""
    print(f"seed {SEED}, {ROUNDS} rounds")
    chance = random.Random(SEED)  # noqa: S311 - the moments are to be repeatable
    total: Counter[str] = Counter()
    for start in range(0, ROUNDS, FRESH):
        project = make_project()
        project.env["FIXTURE_PAUSE"] = "0.1"
        soak = Soak(project, chance)
        for number in range(start, min(start + FRESH, ROUNDS)):
            soak.round(number)
        total += soak.seen
        project.end_all()
    print(dict(total))
    assert sum(total.values()) == ROUNDS
