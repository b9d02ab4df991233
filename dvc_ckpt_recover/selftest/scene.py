"""The remains of a run in a small project, made in milliseconds and without importing DVC."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

import pygit2

from dvc_ckpt_recover.checkpointing.commit import Committer
from dvc_ckpt_recover.checkpointing.staged import Staged, StagedFile, StagedOut, new_folder
from dvc_ckpt_recover.durable.reserve import keep_reserve
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.dvc_api.executors import experiment_ref
from dvc_ckpt_recover.runs import Lease, Mode, Places, RunRecord, load_record, run_id_of

NAME = "proof"
DEAD, SUCCESS, LIVE_RUN = "dead", "success", "live"
"""A run whose trainer died; one that finished and DVC lost; one that still makes checkpoints."""
FINAL = 99
"""The step that a finished run ends with."""
_DVC_YAML = (
    "stages:\n  train:\n    cmd: python train.py\n    outs: [{model: {persist: true}}, data]\n"
)
_WHO = pygit2.Signature("Proof", "proof@example.com", 1_700_000_000, 0)


def bytes_of(step: int, size: int = 300) -> bytes:
    """Return what the model file of a step holds."""
    return (f"model of step {step}\n".encode() * (size // 16 + 1))[:size]


def part_of(step: int) -> bytes:
    """Return what the file of a step in the output folder holds."""
    return f"part {step}\n".encode()


def md5(data: bytes) -> str:
    """Return the name that DVC gives to bytes."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


class _Objects:
    """As much of DVC's object store as our cache needs, in a plain folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def oid_to_path(self, oid: str) -> str:
        return os.path.join(self.path, oid[:2], oid[2:])

    @staticmethod
    def makedirs(path: str) -> None:
        os.makedirs(path, exist_ok=True)


class _Named:
    def __init__(self, **fields: Any) -> None:  # noqa: ANN401
        self.__dict__.update(fields)


def light_repo(scene: Scene) -> Any:  # noqa: ANN401
    """Return as much of DVC's ``Repo`` as a recovery needs."""
    cache = _Named(local=_Objects(scene.cache_root))
    scm = _Named(root_dir=scene.repo)
    return _Named(tmp_dir=scene.dvc_tmp, scm=scm, cache=cache, root_dir=scene.repo, config={})


@dataclass(frozen=True)
class Scene:
    """Where everything of one scene lies.

    Attributes:
        top: Folder of its own.
        far: Folder on another file system for temp dir and cache, or empty.
        kind: ``DEAD``, ``SUCCESS`` or ``LIVE_RUN``.
        baseline: The baseline commit.
        run_id: The run.
        packed: Whether refs were packed.
    """

    top: str
    far: str
    kind: str
    baseline: str
    run_id: str
    packed: bool = False

    @property
    def repo(self) -> str:
        """Return the main repository."""
        return os.path.join(self.top, "repo")

    @property
    def dvc_tmp(self) -> str:
        """Return the project's ``.dvc/tmp``."""
        return os.path.join(self.repo, ".dvc", "tmp")

    @property
    def places(self) -> Places:
        """Return where the run's files lie."""
        return Places(self.dvc_tmp)

    @property
    def temp_dir(self) -> str:
        """Return the run's temp dir."""
        return os.path.join(self.dvc_tmp, "exps", "standalone", "tmpproof1")

    @property
    def cache_root(self) -> str:
        """Return the DVC cache."""
        home = self.far or os.path.join(self.repo, ".dvc")
        return os.path.join(home, "cache", "files", "md5")

    @property
    def wanted_ref(self) -> str:
        """Return the experiment ref that a recovery makes."""
        return experiment_ref(self.baseline, NAME)

    @property
    def label(self) -> str:
        """Return the scene's traits in words."""
        return (
            f"{self.kind}, refs {'packed' if self.packed else 'loose'}{', far' if self.far else ''}"
        )


def git(folder: str, *words: str) -> str:
    """Run git and return what it says."""
    done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True)
    return done.stdout


def build(  # noqa: PLR0913 - each is one trait
    top: str,
    kind: str,
    *,
    far: str = "",
    packed: bool = False,
    steps: int = 2,
    staged: int = 1,
    size: int = 300,
) -> Scene:
    """Build a scene in the empty folder ``top`` and return it.

    Args:
        top: The scene's folder.
        kind: ``DEAD``, ``SUCCESS`` or ``LIVE_RUN`` (which has no checkpoint yet).
        far: Folder on another file system for temp dir and cache, or empty.
        packed: Whether to pack refs.
        steps: How many checkpoints are ready.
        staged: How many more are copied aside and not stored.
        size: Bytes of a checkpoint's model.
    """
    repo = os.path.join(top, "repo")
    os.makedirs(repo)
    git(repo, "init", "-q", "--template=", "-b", "main")
    git(repo, "config", "user.name", "Proof")
    git(repo, "config", "user.email", "proof@example.com")
    files = {
        ".dvc/config": b"",
        ".dvc/.gitignore": b"/tmp\n/cache\n",
        "dvc.yaml": _DVC_YAML.encode(),
        "train.py": b"print('training')\n",
        ".gitignore": b"/model\n/data\n",
    }
    for path, data in files.items():
        _write(os.path.join(repo, path), data)
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "baseline")
    baseline = git(repo, "rev-parse", "HEAD").strip()
    scene = Scene(top, far, kind, baseline, "", packed)
    exps = os.path.join(scene.dvc_tmp, "exps")
    os.makedirs(scene.dvc_tmp)
    if far:
        os.makedirs(os.path.join(far, "exps"))
        os.symlink(os.path.join(far, "exps"), exps)
    os.makedirs(scene.cache_root)
    _make_temp_dir(scene, files)
    stash = _make_stash(repo, baseline)
    scene = Scene(top, far, kind, baseline, run_id_of(scene.temp_dir, stash), packed)
    _record(scene, stash, finished=kind == SUCCESS).save(scene.places)
    keep_reserve(scene.places.reserve(scene.run_id))
    lease = Lease(scene.places, scene.run_id)
    lease.claim()
    lease.release()
    pygit2.Repository(repo).references.create(f"refs/ckpt-recover/runs/{scene.run_id}", stash)
    if kind != LIVE_RUN:
        committer = Committer(load(scene), Cache(light_repo(scene)))
        for step in range(1, steps + 1):
            committer.commit(stage(scene, step, size))
    if kind == DEAD:
        for step in range(steps + 1, steps + staged + 1):
            stage(scene, step, size)
    if kind == SUCCESS:
        _finish(scene)
    if packed:
        git(repo, "pack-refs", "--all")
    return scene


def load(scene: Scene) -> RunRecord:
    """Return the run's record."""
    return load_record(scene.places, scene.run_id)


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def _record(scene: Scene, stash: str, *, finished: bool) -> RunRecord:
    return RunRecord(
        run_id=scene.run_id,
        name=NAME,
        baseline=scene.baseline,
        parent=scene.baseline,
        branch=None,
        stash_rev=stash,
        main_root=scene.repo,
        temp_dir=scene.temp_dir,
        dvc_dir=".dvc",
        mode=Mode.TEMP,
        reproduced=finished,
        cause="" if finished else "stage train: signal 9 (SIGKILL)",
    )


def _make_temp_dir(scene: Scene, files: dict[str, bytes]) -> None:
    temp = scene.temp_dir
    os.makedirs(temp)
    git(temp, "init", "-q", "--template=", "-b", "main")
    git(temp, "config", "user.name", "Proof")
    git(temp, "config", "user.email", "proof@example.com")
    git(temp, "fetch", "-q", scene.repo, "main")
    git(temp, "reset", "-q", "--hard", "FETCH_HEAD")
    for path in files:
        assert os.path.exists(os.path.join(temp, path))  # noqa: S101
    _write(os.path.join(temp, "model"), b"torn, half wr")
    _write(os.path.join(temp, "data", "part"), b"linked from a cache")
    os.chmod(os.path.join(temp, "data", "part"), 0o444)


def _make_stash(repo: str, baseline: str) -> str:
    store = pygit2.Repository(repo)
    tree = store[baseline].tree_id
    index = store.create_commit(None, _WHO, _WHO, "index", tree, [baseline])
    message = f"dvc-exp:{baseline}:{baseline}:{NAME}"
    return str(store.create_commit(None, _WHO, _WHO, message, tree, [baseline, index]))


def stage(scene: Scene, step: int, size: int = 300) -> Staged:
    """Copy the checkpoint of a step aside, as a snapshot does, and return it."""
    folder = new_folder(scene.places.staging(scene.run_id))
    said = json.dumps({"step": step}).encode()
    asides = {"0": bytes_of(step, size), "1": part_of(step), "2": said}
    for name, data in asides.items():
        _write(os.path.join(folder, name), data)
    outs = (
        StagedOut("model", "model", cached=True, folder=False, files=(_file("", "0", asides),)),
        StagedOut("data", "data", cached=True, folder=True, files=(_file("part", "1", asides),)),
        StagedOut(
            "metrics.json",
            "metrics.json",
            cached=False,
            folder=False,
            files=(_file("", "2", asides),),
        ),
    )
    entry = {"cmd": "python train.py"}
    staged = Staged(folder, "train", "dvc.lock", "train", entry, {}, (), outs)
    staged.mark_ready()
    return staged


def _file(name: str, aside: str, asides: dict[str, bytes]) -> StagedFile:
    return StagedFile(name, len(asides[aside]), executable=False, aside=aside)


def _finish(scene: Scene) -> None:
    """Make DVC's own experiment in the temp dir's repository, and nowhere else."""
    temp = scene.temp_dir
    data, part = bytes_of(FINAL), part_of(FINAL)
    listing = json.dumps([{"md5": md5(part), "relpath": "part"}]).encode()
    tree_oid = md5(listing) + ".dir"
    objects = _Objects(scene.cache_root)
    for oid, held in ((md5(part), part), (tree_oid, listing)):
        _write(objects.oid_to_path(oid), held)
        os.chmod(objects.oid_to_path(oid), 0o444)
    _write(os.path.join(temp, "model"), data)  # DVC could not store it: it is carried over
    _write(os.path.join(temp, "metrics.json"), json.dumps({"step": FINAL}).encode())
    lock = (
        "schema: '2.0'\nstages:\n  train:\n    cmd: python train.py\n    outs:\n"
        f"    - path: data\n      hash: md5\n      md5: {tree_oid}\n"
        f"    - path: model\n      hash: md5\n      md5: {md5(data)}\n"
    )
    _write(os.path.join(temp, "dvc.lock"), lock.encode())
    git(temp, "add", "dvc.lock", "metrics.json")
    git(temp, "commit", "-q", "-m", f"dvc: commit experiment {NAME}")
    git(temp, "update-ref", scene.wanted_ref, "HEAD")


def copy(scene: Scene, source: str) -> None:
    """Put the scene that was kept in ``source`` (see ``keep``) back in place."""
    for name, place in (("near", scene.top), ("far", scene.far)):
        if place:
            shutil.rmtree(place, ignore_errors=True)
            _cp(os.path.join(source, name), place)


def keep(scene: Scene, target: str) -> None:
    """Keep a copy of the scene in the empty folder ``target``."""
    for name, place in (("near", scene.top), ("far", scene.far)):
        if place:
            _cp(place, os.path.join(target, name))


def _cp(source: str, target: str) -> None:
    subprocess.run(["cp", "-a", source, target], check=True)
