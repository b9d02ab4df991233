"""DVCLive: a checkpoint at each step with no change to the code, within a budget."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support import DVC_VERSION, Project
from support.tiny import cached, steps, told

if TYPE_CHECKING:
    from typing import Callable

pytest.importorskip("dvclive")
pytestmark = pytest.mark.skipif(DVC_VERSION < (3,), reason="DVC 2 makes its checkpoints itself")

STEPS = """
from dvclive import Live
live = Live()
for step in range(1, 7):
    live.log_metric("loss", 10 - step)
    save(step)
    live.next_step()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_each_step_is_a_checkpoint(tiny: Callable[..., Project]) -> None:
    """The trainer knows nothing of checkpoints; their rows have DVCLive's metrics."""
    project = tiny(STEPS, meta="{checkpoint: {budget: 1}}")
    project.dvc("exp", "run", "--temp", "-n", "steps")
    tip = project.exps()["steps"]
    assert steps(project, tip) == [1, 2, 3, 4, 5, 6]
    for step, commit in enumerate(project.commits(tip)[:-1], 1):
        assert cached(project, commit).read_text() == str(step)
        assert json.loads(project.read(commit, "dvclive/metrics.json"))["loss"] == 10 - step
    (row,) = [row for row in project.rows() if row["kind"] == "experiment"]
    assert row["metrics"]["dvclive/metrics.json"]["loss"] == 4
    assert len(project.read(tip, "dvclive/plots/metrics/loss.tsv").splitlines()) == 7


EVERY = """
from dvc_ckpt_recover import make_checkpoint
""" + STEPS.replace("live.next_step()\n", "live.next_step()\n    if step == 3: make_checkpoint()\n")


def test_the_stage_sets_how_many(tiny: Callable[..., Project]) -> None:
    """Each second call, and all explicit ones; the newest two are kept; slips are told."""
    said = "budget: 1, every: 2, keep: 2, salvage: maybe, kep: 3"
    project = tiny(EVERY, meta=f"{{checkpoint: {{{said}}}}}")
    done = project.dvc("exp", "run", "--temp", "-n", "some")
    tip = project.exps()["some"]
    assert steps(project, tip) == [4, 6]
    numbers = project.git("log", "--format=%(trailers:key=Checkpoint,valueonly)", f"main..{tip}")
    assert numbers.split() == ["4", "3"]
    assert "Experiment-Checkpoints: 2" in project.git("log", "-1", "--format=%B", tip)
    told_before = done.stdout.partition("> python train.py")[0]
    assert "stage train: meta.checkpoint has no key 'kep'" in told_before
    assert "meta.checkpoint.salvage must be true or false, not 'maybe'; True is used" in told_before


BUDGET = """
from dvclive import Live
from dvc_ckpt_recover import make_checkpoint
from dvc_ckpt_recover.trainer import live as hooks
waited, explicit = [], []
ask = hooks.automatic._ask


def timed(live):
    start = time.monotonic()
    ask(live)
    waited.append(time.monotonic() - start)


hooks.automatic._ask = timed
live = Live(report=None, dvcyaml=None, monitor_system=False)
with open("model", "wb") as file:
    file.write(os.urandom(30 << 20))
Path("metrics.json").write_text(json.dumps({"step": 0}))
begin = time.monotonic()
step = 0
while time.monotonic() < begin + 6:
    step += 1
    os.utime("model")  # a new state, as far as one can tell
    if step % 50 == 0 and len(explicit) < 3:
        explicit.append(make_checkpoint())
    live.next_step()
    time.sleep(0.01)
tell(share=sum(waited) / 6, calls=step, explicit=explicit, most=sorted(waited)[-8:])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_automatic_checkpoints_keep_to_the_budget(tiny: Callable[..., Project]) -> None:
    """Hundreds of steps, some checkpoints: they make the trainer wait 5 % of the time at most."""
    project = tiny(BUDGET)
    done = project.dvc("exp", "run", "--temp", "-n", "cheap")
    (said,) = told(project)
    assert said["explicit"] == [True] * 3
    assert said["share"] < 0.1  # 5 %, the first one, and what a busy machine adds
    taken = len(steps(project, project.exps()["cheap"])) - 3
    assert 2 <= taken < said["calls"] / 4
    assert "skipped" not in done.stdout
