"""The original report's set-up: a framework, its checkpoint callback, its DVCLive logger, killed.

Needs Lightning or Transformers with PyTorch, which the matrix does not install: they are large.
"""

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

LIGHTNING = """
import torch
from dvclive.lightning import DVCLiveLogger
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, _):
        loss = (self.layer(batch[0]) ** 2).mean()
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Die(Callback):
    def on_train_epoch_start(self, trainer, module):
        if trainer.current_epoch == int(os.environ.get("DIE_AT", "-1")):
            Path("model/last.ckpt").write_bytes(b"torn")
            os.kill(os.getpid(), signal.SIGKILL)


Path("metrics.json").write_text("{}")
last = "model/last.ckpt" if Path("model/last.ckpt").exists() else None
tell(last=last)
Trainer(
    max_epochs=4,
    logger=DVCLiveLogger(report=None),
    callbacks=[ModelCheckpoint("model", save_last=True, save_top_k=1, monitor="loss"), Die()],
    enable_progress_bar=False,
    enable_model_summary=False,
    accelerator="cpu",
).fit(Net(), DataLoader(TensorDataset(torch.ones(8, 2)), batch_size=4), ckpt_path=last)
"""


def test_lightning_is_killed(tiny: Callable[..., Project]) -> None:
    """Three epochs are kept, each a whole model with its own metrics, and training goes on."""
    pytest.importorskip("lightning")
    project = tiny(LIGHTNING, meta="{checkpoint: {budget: 1}}")
    done = project.dvc("exp", "run", "--temp", "-n", "net", env={"DIE_AT": "3"}, timeout=240)
    tip = project.exps()["net"]
    commits = project.commits(tip)[:-1]
    assert len(commits) == 3, done.stdout
    for epoch, commit in enumerate(commits):
        listed = json.loads(cached(project, commit).read_text())
        assert {"last.ckpt"} < {entry["relpath"] for entry in listed}
        assert json.loads(project.read(commit, "dvclive/metrics.json"))["epoch"] == epoch
        (oid,) = [entry["md5"] for entry in listed if entry["relpath"] == "last.ckpt"]
        found = project.path / ".dvc" / "cache" / "files" / "md5" / oid[:2] / oid[2:]
        look = f"import torch; print(torch.load({str(found)!r}, weights_only=False)['epoch'])"
        assert project.python("-c", look).stdout.split()[-1] == str(epoch)
    project.dvc("exp", "resume", "net", check=True, timeout=240)
    assert told(project)[-1] == {"last": "model/last.ckpt"}
    whole = project.exps()["net"]
    assert project.git("merge-base", "--is-ancestor", tip, whole) == ""
    assert json.loads(project.read(whole, "dvclive/metrics.json"))["epoch"] == 3


TRANSFORMERS = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from transformers.integrations import DVCLiveCallback

config = BertConfig(
    hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=20
)
data = [{"input_ids": [1, 2, 3], "attention_mask": [1, 1, 1], "labels": 0}] * 8
Path("metrics.json").write_text("{}")
arguments = TrainingArguments(
    output_dir="model",
    num_train_epochs=3,
    per_device_train_batch_size=4,
    logging_strategy="epoch",
    save_strategy="epoch",
    report_to=[],
    use_cpu=True,
    disable_tqdm=True,
)
model = BertForSequenceClassification(config)
Trainer(model, arguments, train_dataset=data, callbacks=[DVCLiveCallback()]).train()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_transformers_is_killed(tiny: Callable[..., Project]) -> None:
    """The newest checkpoint has the newest model, though the callback logs before it saves."""
    pytest.importorskip("transformers")
    project = tiny(TRANSFORMERS, meta="{checkpoint: {budget: 1}}")
    done = project.dvc("exp", "run", "--temp", "-n", "bert", timeout=240)
    tip = project.exps()["bert"]
    assert len(steps(project, tip)) >= 3, done.stdout
    listed = json.loads(cached(project, tip).read_text())
    folders = {entry["relpath"].split("/")[0] for entry in listed}
    assert folders == {"checkpoint-2", "checkpoint-4", "checkpoint-6"}
    assert "skipped" not in done.stdout
