"""The oracle: reads a scene with plain hashing and Git, and says what is wrong with it.

It shares no reading code with the product, so that one mistake cannot hide the other.
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pygit2

from dvc_ckpt_recover.selftest.scene import (
    DEAD,
    FINAL,
    LIVE_RUN,
    SUCCESS,
    bytes_of,
    md5,
    part_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dvc_ckpt_recover.selftest.scene import Scene

LOST, TORN, EARLY, UNCLEAN = "lost", "torn", "removed unproven", "unclean"
_REF = re.compile(r"refs/(exps/[0-9a-f]{2}/[0-9a-f]{38}/|ckpt-recover/live/).+")
_OUT = re.compile(r"- path: (\S+)\n(?:\s+\w+: .*\n)*?\s+md5: ([0-9a-f]{32}(?:\.dir)?)")
_CAUSE = re.compile(r"Experiment-Cause: .*\n")  # lost with a record that could not be read
_LITTER = re.compile(r"\.tmp$|/tmp_obj\w+$|\.git2_\w+$|\.git/.*\.lock$|/receipts/|\.lease$")


@dataclass
class Seen:
    """What a scene holds.

    Attributes:
        steps: Steps that a ref names and whose bytes are all there, by ref.
        wrong: What is wrong: (kind, what).
    """

    steps: dict[str, set[int]] = field(default_factory=dict)
    wrong: list[tuple[str, str]] = field(default_factory=list)

    def all_steps(self, prefix: str = "refs/") -> set[int]:
        """Return the steps that refs with ``prefix`` name."""
        return {
            step for ref, steps in self.steps.items() if ref.startswith(prefix) for step in steps
        }


class Oracle:
    """Knows how a scene looked before anything was done to it.

    Args:
        scene: The scene, untouched.
        size: Bytes of a model.
    """

    def __init__(self, scene: Scene, size: int = 300) -> None:
        self.scene = scene
        self._size = size
        self._temp_files = _files(scene.temp_dir)
        self.given = self.look().all_steps() | self._staged()

    def look(self) -> Seen:
        """Read all refs and what they name."""
        seen = Seen()
        try:
            repo = pygit2.Repository(self.scene.repo)
            names = [name for name in repo.references if _REF.match(name)]
        except (pygit2.GitError, ValueError, KeyError) as exc:
            seen.wrong.append((TORN, f"refs cannot be listed: {exc}"))
            return seen
        for name in names:
            try:
                tip = repo.references[name].resolve().target
                seen.steps[name] = self._chain(repo, name, tip, seen)
            except (pygit2.GitError, ValueError, KeyError, OSError) as exc:
                seen.wrong.append((TORN, f"{name}: {exc}"))
        return seen

    def _chain(self, repo: Any, name: str, tip: Any, seen: Seen) -> set[int]:  # noqa: ANN401
        steps = set()
        commit = repo[tip]
        partial = "Experiment-Status: partial" in commit.message
        if name.startswith("refs/exps/") and partial != (self.scene.kind != SUCCESS):
            seen.wrong.append((TORN, f"{name} passes for what it is not"))
        while str(commit.id) != self.scene.baseline:
            step = self._step(repo, commit, name, seen)
            if step is not None:
                steps.add(step)
            commit = repo[commit.parent_ids[0]]
        return steps

    def _step(self, repo: Any, commit: Any, name: str, seen: Seen) -> int | None:  # noqa: ANN401
        for _ in _blobs(repo, commit.tree):
            pass
        step: int = json.loads(commit.tree["metrics.json"].data)["step"]
        lock = commit.tree["dvc.lock"].data.decode()
        outs = dict(_OUT.findall(lock.replace("\n      hash: md5", "")))
        wanted = {"model": md5(bytes_of(step, self._size)), "data": _dir_oid(step)}
        for out, oid in wanted.items():
            if outs.get(out) != oid:
                seen.wrong.append(
                    (TORN, f"{name}: {out} of step {step} is {outs.get(out)}, not {oid}")
                )
        for oid in (*wanted.values(), md5(part_of(step))):
            if not self._has(oid):
                seen.wrong.append((TORN, f"{name}: the DVC object {oid} of step {step}"))
                return None
        return step

    def _has(self, oid: str) -> bool:
        path = os.path.join(self.scene.cache_root, oid[:2], oid[2:])
        try:
            with open(path, "rb") as file:
                return md5(file.read()) == oid.partition(".")[0]
        except OSError:
            return False

    def _staged(self) -> set[int]:
        top = self.scene.places.staging(self.scene.run_id)
        steps = set()
        for name in os.listdir(top) if os.path.isdir(top) else ():
            try:
                for path in ("ready.json", "2"):
                    with open(os.path.join(top, name, path), "rb") as file:
                        value = json.load(file)
                with open(os.path.join(top, name, "0"), "rb") as file:
                    if file.read() == bytes_of(value["step"], self._size):
                        steps.add(int(value["step"]))
            except (OSError, ValueError):
                continue
        return steps

    def judge(
        self, acknowledged: Iterable[int] = (), *, final: bool = False, fsck: bool = True
    ) -> list[tuple[str, str]]:
        """Return what is wrong: (kind, what).

        Args:
            acknowledged: Steps that must be there, besides those of the start.
            final: Whether a recovery went through, so that all is published.
            fsck: Whether Git must find nothing either.
        """
        seen = self.look()
        wrong = list(seen.wrong)
        kind = self.scene.kind
        published = seen.all_steps("refs/exps/")
        wanted = {FINAL} if kind == SUCCESS else self.given | set(acknowledged)
        has_dir = any(
            self._temp_files.items() <= _files(path).items() for path in self._temp_dirs()
        )
        if not has_dir and not wanted <= published and (kind != LIVE_RUN or wanted):
            missing = sorted(wanted - published)
            wrong.append((EARLY, f"the temp dir is not whole and step {missing} is not published"))
        there = published if final else seen.all_steps() | self._staged()
        if kind != SUCCESS or final:
            wrong += [(LOST, f"step {step}") for step in sorted(wanted - there)]
        elif not has_dir and FINAL not in published:
            wrong.append((LOST, "the finished experiment"))
        if final and wanted and self.scene.wanted_ref not in seen.steps:
            wrong.append((LOST, f"the name of the experiment: {sorted(seen.steps)}"))
        if final:
            wrong += [(UNCLEAN, path) for path in self._temp_dirs() if os.path.exists(path)]
        gc.collect()  # or this process would have the scene's files open still
        return wrong + (self.fsck() if fsck else [])

    def _temp_dirs(self) -> tuple[str, str]:
        return self.scene.temp_dir, f"{self.scene.temp_dir}.removing"

    def fsck(self) -> list[tuple[str, str]]:
        """Return what ``git fsck`` finds."""
        words = ["git", "-C", self.scene.repo, "fsck", "--no-dangling", "--no-progress"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        bad = [line for line in (done.stdout + done.stderr).splitlines() if "dangling" not in line]
        return [(TORN, f"git fsck: {line}") for line in bad] if done.returncode or bad else []

    def litter(self) -> list[str]:
        """Return the files that a killed write left."""
        return [path for path in _files(self.scene.repo) if _LITTER.search(path)]

    def fingerprint(self, *, exact: bool = False) -> dict[str, Any]:
        """Return what must be alike after every recovery of this scene.

        Args:
            exact: Count commit times and files' times too: for "nothing changed".
        """
        repo = pygit2.Repository(self.scene.repo)
        found: dict[str, Any] = {}
        chain: list[Any] = []
        for name in repo.references:
            try:
                chain = list(repo.walk(repo.references[name].target))
            except (pygit2.GitError, KeyError, ValueError, OSError) as exc:
                found[name] = f"broken: {exc}"
                continue
            said = [(str(each.tree_id), _CAUSE.sub("", each.message)) for each in chain]
            found[name] = str(chain[0].id) if exact else said
        del chain, repo
        gc.collect()
        for path, data in _files(self.scene.repo).items():
            inside = os.path.join(".git", "")
            if exact and not path.startswith(inside):
                found[path] = (data, os.lstat(os.path.join(self.scene.repo, path)).st_mtime_ns)
            elif not exact and not path.startswith(inside) and not _LITTER.search(path):
                found[path] = data
        return found


def _dir_oid(step: int) -> str:
    listing = json.dumps([{"md5": md5(part_of(step)), "relpath": "part"}]).encode()
    return md5(listing) + ".dir"


def _blobs(repo: Any, tree: Any) -> Iterable[bytes]:  # noqa: ANN401
    """Read all files of a tree; a missing or damaged one raises."""
    for entry in tree:
        if entry.type_str == "tree":
            yield from _blobs(repo, repo[entry.id])
        else:
            yield repo.odb.read(entry.id)[1]


def _files(top: str) -> dict[str, bytes]:
    """Return the files below ``top``: path -> bytes."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                with open(path, "rb") as file:
                    found[os.path.relpath(path, top)] = file.read()
            except OSError:
                found[os.path.relpath(path, top)] = b"?"
    return found


__all__ = ["DEAD", "EARLY", "LOST", "TORN", "UNCLEAN", "Oracle", "Seen"]
