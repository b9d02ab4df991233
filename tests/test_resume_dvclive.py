"""DVCLive goes on counting where the killed trainer stopped, with the best value so far."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from digits.build import commit
from support import DVC_VERSION, Project
from support.tiny import told

if TYPE_CHECKING:
    from typing import Callable

pytest.importorskip("dvclive")
pytestmark = pytest.mark.skipif(DVC_VERSION < (3,), reason="DVC 2 makes its checkpoints itself")

TRAINER = """
from dvclive import Live
Path("metrics.json").write_text("{}")
live = Live(dvcyaml=None)
tell(step=live.step, model=model(), number=os.environ.get("DVC_CHECKPOINT_RESUME"))
for step in range(live.step, 6):
    loss = [5, 1, 4, 3, 2, 6][step]
    live.log_metric("best", min(live.summary.get("best", 9), loss))
    live.log_metric("loss", loss)
    save(step + 1)
    live.next_step()
    if step == int(os.environ.get("DIE_AFTER", "9")):
        os.kill(os.getpid(), signal.SIGKILL)
live.end()
"""


def test_steps_and_the_best_value_go_on(tiny: Callable[..., Project]) -> None:
    """DVC deletes DVCLive's folder before the stage; the checkpoint's is there when it starts."""
    outs = ("model: {persist: true}", "dvclive: {cache: false}")
    project = tiny(TRAINER, outs=outs, meta="{checkpoint: {budget: 1}}")
    (project.path / ".gitignore").write_text("/model\n", encoding="utf-8")
    commit(project.path, "DVCLive's files are kept by Git")
    project.dvc("exp", "run", "--temp", "-n", "live", env={"DIE_AFTER": "2"})
    done = project.dvc("exp", "resume", "live", check=True)
    first, second = told(project)
    assert first == {"step": 0, "model": 0, "number": None}
    assert second == {"step": 3, "model": 3, "number": "3"}, done.stdout
    tip = project.exps()["live"]
    metrics = json.loads(project.read(tip, "dvclive/metrics.json"))
    assert (metrics["best"], metrics["loss"], metrics["step"]) == (1, 6, 5)
    rows = project.read(tip, "dvclive/plots/metrics/loss.tsv").splitlines()
    assert [row.split("\t")[0] for row in rows] == ["step", "0", "1", "2", "3", "4", "5"]
