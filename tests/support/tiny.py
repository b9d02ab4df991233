"""A one-stage project whose trainer is the text that a test gives; no training, so it is quick."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

from digits.build import commit, dvc, git

from support.project import Project

if TYPE_CHECKING:
    from pathlib import Path

PREFACE = """\
import json, os, signal, sys, time
from pathlib import Path

OUTSIDE = Path(os.environ["FIXTURE_LOG"]).parent
DVC_PID = int(os.environ.get("DVC_CKPT_RECOVER_PID", "0"))


def tell(**said):
    with open(OUTSIDE / "told.jsonl", "a") as file:
        file.write(json.dumps(said) + "\\n")


def model():
    return int(Path("model").read_text()) if Path("model").exists() else 0


def save(step):
    Path("metrics.json").write_text(json.dumps({"step": step}))
    Path("model").write_text(str(step))


"""
PIPELINE = """\
stages:
  train:
    cmd: {cmd}
    deps: [{script}]
{params}    outs:
{outs}
    metrics:
      - metrics.json: {{cache: false}}
{meta}"""


def build_tiny(  # noqa: PLR0913 - each is one trait of the project, most of them optional
    folder: Path,
    trainer: str,
    *,
    outs: tuple[str, ...] = ("model: {persist: true}",),
    meta: str = "",
    script: str = "train.py",
    cmd: str = "python train.py",
    params: str = "",
) -> Project:
    """Build a project with one committed, never run stage ``train`` and return it.

    Args:
        folder: An empty folder of the test's own.
        trainer: The script; a Python one gets ``PREFACE`` before it.
        outs: Entries of ``outs`` in ``dvc.yaml``.
        meta: The stage's ``meta``, as flow YAML.
        script: The script's name.
        cmd: The stage's command.
        params: Content of ``params.yaml``, whose keys are the stage's params.
    """
    repo = folder / "repo"
    repo.mkdir()
    git(repo, "init", "-q")
    git(repo, "symbolic-ref", "HEAD", "refs/heads/main")
    git(repo, "config", "user.name", "Fixture")
    git(repo, "config", "user.email", "fixture@example.com")
    dvc(repo, "init", "-q")
    (repo / ".dvc" / "config").write_text("[core]\n    analytics = false\n", encoding="utf-8")
    preface = PREFACE if script.endswith(".py") else ""
    (repo / script).write_text(preface + textwrap.dedent(trainer), encoding="utf-8")
    names = ", ".join(line.partition(":")[0] for line in params.splitlines())
    pipeline = PIPELINE.format(
        cmd=cmd,
        script=script,
        outs="\n".join(f"      - {out}" for out in outs),
        meta=f"    meta: {meta}\n" if meta else "",
        params=f"    params: [{names}]\n" if params else "",
    )
    (repo / "dvc.yaml").write_text(pipeline, encoding="utf-8")
    if params:
        (repo / "params.yaml").write_text(params, encoding="utf-8")
    ignored = "__pycache__/\n" + "".join(f"/{out.partition(':')[0]}\n" for out in outs)
    (repo / ".gitignore").write_text(ignored, encoding="utf-8")
    commit(repo, "A stage that was never run")
    return Project(repo, folder / "outside")


def told(project: Project) -> list[dict[str, Any]]:
    """Return what the trainer told, in order."""
    path = project.outside / "told.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def cached(project: Project, commit: str, path: str = "model") -> Path:
    """Return the cache's file of an output of a commit."""
    lock = project.read(commit, "dvc.lock").splitlines()
    at = next(i for i, line in enumerate(lock) if line.strip() == f"- path: {path}")
    oid = next(line.split()[-1] for line in lock[at:] if "md5:" in line)
    return project.path / ".dvc" / "cache" / "files" / "md5" / oid[:2] / oid[2:]


def steps(project: Project, tip: str) -> list[int]:
    """Return the metrics' step of each checkpoint below a partial experiment's closing commit."""
    commits = project.commits(tip)[:-1]
    return [json.loads(project.read(commit, "metrics.json")).get("step", 0) for commit in commits]
