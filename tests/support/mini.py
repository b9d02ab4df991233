"""A project with one stage, whose trainer needs the standard library only, so that runs are short.

Its outputs are a state that persists, metrics, a folder of plots in the cache, and a plain one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from digits.build import CONFIG, commit, dvc, git

if TYPE_CHECKING:
    from pathlib import Path

    from support.project import Project

TRAINER = """
import json, os, pathlib, pickle, signal, sys

STATE, METRICS = pathlib.Path("state.pkl"), pathlib.Path("metrics.json")
PLOTS, PLAIN, EXTRA = pathlib.Path("plots"), pathlib.Path("plain.bin"), pathlib.Path("extra.json")
env = os.environ.get


def log(event, **fields):
    with open(os.environ["FIXTURE_LOG"], "a") as file:
        file.write(json.dumps({"event": event, **fields}) + "\\n")


def die(epoch, where):
    if (env("MINI_DIE_AT"), env("MINI_DIE")) == (str(epoch), where):
        log("died", epoch=epoch)
        if env("FIXTURE_MARK"):
            pathlib.Path(os.environ["FIXTURE_MARK"]).write_text(str(os.getpid()))
        if env("MINI_HANG"):
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)


there = [str(path) for path in (STATE, METRICS, PLOTS, PLAIN) if path.exists()]
log("start", there=there, number=env("DVC_CHECKPOINT_RESUME"), live=env("DVCLIVE_RESUME"))
state = pickle.loads(STATE.read_bytes()) if STATE.exists() else {"epoch": 0}
best = json.loads(METRICS.read_text())["best"] if METRICS.exists() else None
PLOTS.mkdir(exist_ok=True)
while state["epoch"] < 4:
    epoch = state["epoch"] + 1
    loss = abs(epoch - 2) + 1
    best = loss if best is None else min(best, loss)
    METRICS.write_text(json.dumps({"epoch": epoch, "loss": loss, "best": best}))
    with open(PLOTS / "loss.tsv", "a") as file:
        file.write(f"{epoch}\\t{loss}\\n")
    PLAIN.write_bytes(b"plain")
    EXTRA.write_text(json.dumps({"epoch": epoch}))
    state = {"epoch": epoch, "pad": bytes(int(env("MINI_PAD", "1000")))}
    data = pickle.dumps(state)
    with open(STATE, "wb") as file:
        file.write(data[: len(data) // 2])
        file.flush()
        die(epoch, "torn")
        file.write(data[len(data) // 2 :])
    die(epoch, "whole")
    log("epoch", epoch=epoch)
    if env("MINI_CALL"):
        from dvc_ckpt_recover import make_checkpoint

        make_checkpoint()
        log("checkpoint", epoch=epoch)
"""

PIPELINE = """
stages:
  train:
    cmd: python train.py
    deps:
      - train.py
    outs:
      - state.pkl:
          {marker}: true
      - extra.json:
          {marker}: true
      - plain.bin
    metrics:
      - metrics.json:
          cache: false
    plots:
      - plots
"""


def build_mini(folder: Path, marker: str) -> Path:
    """Make the project in ``folder``; ``marker`` is ``persist`` or ``checkpoint``."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "symbolic-ref", "HEAD", "refs/heads/main")
    git(folder, "config", "user.name", "Fixture")
    git(folder, "config", "user.email", "fixture@example.com")
    dvc(folder, "init", "-q")
    (folder / ".dvc" / "config").write_text(CONFIG, encoding="utf-8")
    (folder / "train.py").write_text(TRAINER, encoding="utf-8")
    (folder / "dvc.yaml").write_text(PIPELINE.format(marker=marker), encoding="utf-8")
    commit(folder, "The project")
    return folder


def dies(at: int, where: str, *, calls: bool = False, pad: int = 1000) -> dict[str, str]:
    """Return the environment in which the trainer dies in epoch ``at``.

    ``where`` is ``torn``, half of the state written, or ``whole``, all of it, before any call.
    """
    env = {"MINI_DIE_AT": str(at), "MINI_DIE": where, "MINI_PAD": str(pad)}
    return {**env, "MINI_CALL": "1"} if calls else env


def run(project: Project, name: str, env: dict[str, str]) -> str:
    """Run an experiment in a temp dir and return what was said."""
    return project.dvc("exp", "run", "--temp", "-n", name, env=env).stdout
