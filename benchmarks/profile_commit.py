"""Where the milliseconds of a small checkpoint go: the storing thread's work under cProfile.

    python benchmarks/profile_commit.py [COUNT]

In one process and without a trainer, so that nothing but the package's own work is seen.
"""

from __future__ import annotations

import cProfile
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dvc.repo import Repo

from dvc_ckpt_recover.checkpointing import Committer
from dvc_ckpt_recover.checkpointing.aside import Asider
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.dvc_api.stages import OutView, PipelineView, StageView
from dvc_ckpt_recover.runs import Mode, Places, RunRecord


def project(folder: Path) -> tuple[RunRecord, Places, PipelineView]:
    """Make a repository with one commit, and a run in it."""
    for args in (["init", "-q"], ["config", "user.name", "B"], ["config", "user.email", "b@b.b"]):
        subprocess.run(["git", *args], cwd=folder, check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "Start"], cwd=folder, check=True)
    git = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(
        git, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()
    root = str(folder)
    record = RunRecord("profile", "profile", head, head, None, head, root, root, ".dvc", Mode.TEMP)
    outs = (
        OutView(f"{root}/model", "model", "model", cached=True, resumable=True),
        OutView(
            f"{root}/metrics.json", "metrics.json", "metrics.json", cached=False, resumable=False
        ),
    )
    stage = StageView(("dvc.lock", "train"), "train", outs, entry={"cmd": "python train.py"})
    return record, Places(f"{root}/.dvc/tmp"), PipelineView(root, stage, (stage,), ())


def main() -> None:
    """Take COUNT checkpoints and print where the time went."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        record, places, view = project(Path(name))
        committer = Committer(record, Cache(Repo(name)))
        asider = Asider(places, record, set())
        aside = storing = 0.0
        profile = cProfile.Profile()
        for step in range(count):
            Path(name, "model").write_text(f"{step}" * 500, encoding="utf-8")
            Path(name, "metrics.json").write_text(f'{{"step": {step}}}', encoding="utf-8")
            start = time.perf_counter()
            staged = asider.take(view, committer, (), None)
            middle = time.perf_counter()
            profile.enable()
            committer.commit(staged)
            profile.disable()
            aside += middle - start
            storing += time.perf_counter() - middle
        aside, storing = 1000 * aside / count, 1000 * storing / count
        print(f"copied aside in {aside:.2f} ms, stored in {storing:.2f} ms")
        stats = pstats.Stats(profile)
        stats.sort_stats("tottime").print_stats(14)
        stats.sort_stats("cumulative").print_stats("dvc_ckpt_recover", 20)


if __name__ == "__main__":
    main()
