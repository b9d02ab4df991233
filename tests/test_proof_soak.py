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

pytestmark = [
    pytest.mark.proof,
    pytest.mark.timeout(4 * 3600),
    pytest.mark.skipif(DVC_VERSION < (3,), reason="checkpoints of ours are for DVC 3"),
]
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
        before = len(self.project.logged("checkpoint"))
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
        self._judge(f"{what}\n{done.stdout}", before)
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
        for entry in self.project.logged()[-1:]:
            with suppress(ProcessLookupError):
                os.kill(entry["pid"], signal.SIGKILL)

    def _processes(self) -> list[psutil.Process]:
        return Queue(self.project).processes()

    def _judge(self, what: str, before: int) -> None:
        acknowledged = self.project.logged("checkpoint")[before:]
        exps = {ref for ref in self.project.refs() if re.match(r"refs/exps/\w{2}/", ref)}
        kept = {oid for ref in exps for oid in self._kept(ref)}  # a worker may take an older task
        for entry in acknowledged:
            assert entry["md5"] in kept, f"lost: epoch {entry['epoch']}\n{what}\n{kept}"
        lines = self.project.git("fsck", "--no-dangling", "--no-progress")
        assert not lines, f"{lines}\n{what}"
        again = self.project.dvc("exp", "recover")
        assert "nothing to recover" in again.stdout, f"{again.stdout}\n{what}"

    def _kept(self, name: str) -> set[str]:
        """Return the models of an experiment whose bytes in the cache are right."""
        project = self.project
        tips = [sha for ref, sha in project.refs().items() if ref == name]
        kept = set()
        for tip in tips:
            partial = "Experiment-Status: partial" in project.git("log", "-1", "--format=%B", tip)
            epochs = set()
            for commit in project.git("log", "--format=%H", tip, "--not", "HEAD").splitlines():
                lock = project.git("show", f"{commit}:dvc.lock")
                found = re.search(r"path: model\S*\n(?:\s+hash: md5\n)?\s+md5: (\w{32})", lock)
                if found is None:
                    continue
                path = project.path / ".dvc/cache/files/md5" / found[1][:2] / found[1][2:]
                assert md5(path.read_bytes()).hexdigest() == found[1], f"torn: {path}"
                kept.add(found[1])
                epochs.add(project.git("show", f"{commit}:metrics.json"))
            lock = project.git("show", f"{tip}:dvc.lock")
            has_all = "# unfinished" not in lock and "evaluate" in lock
            assert partial or has_all, f"{name} passes for finished"
            if not partial:  # as plain DVC's: the last state only
                logged = project.logged("checkpoint")
                kept |= {entry["md5"] for entry in logged if logged[-1]["md5"] in kept}
        return kept


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
