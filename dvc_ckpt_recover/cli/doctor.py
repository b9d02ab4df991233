"""``doctor``: start the processes that DVC is used through, and see which of them are hooked.

Failure rule: a process that cannot be started, or that gives no sign in time, is not hooked.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from typing import Any

import dvc_ckpt_recover
from dvc_ckpt_recover import settings

_TIMEOUT = 60.0
_REPO = "from dvc.repo import Repo; Repo().close()"


@dataclass(frozen=True)
class Way:
    """One way in which DVC is started.

    Attributes:
        name: What the user calls it.
        command: Program and arguments.
        needs: Points that this process must have bound, beyond being hooked at all.
    """

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()


WAYS = (
    Way("dvc on PATH", ("dvc", "exp", "list"), ("main",)),
    Way("python -m dvc", (sys.executable, "-m", "dvc", "exp", "list"), ("main",)),
    Way("dvc exp exec-run", ("dvc", "exp", "exec-run", "--infofile", "none.run"), ("reproduce",)),
    Way("a Repo() in Python", (sys.executable, "-c", _REPO)),
)


@dataclass(frozen=True)
class Finding:
    """What became of one way.

    Attributes:
        name: Its name.
        program: The program that was started, with its folder.
        hooked: Whether the package is active there and the points needed are bound.
        reason: Why not, or which version when it is another copy.
    """

    name: str
    program: str
    hooked: bool
    reason: str = ""


def examine(way: Way, folder: str) -> Finding:
    """Start ``way`` in the project ``folder`` and read what it says of itself."""
    program = shutil.which(way.command[0])
    if program is None:
        return Finding(way.name, way.command[0], hooked=False, reason="there is no such program")
    witness = os.path.join(folder, f"{WAYS.index(way)}.jsonl")
    env = {**os.environ, settings.ENV_WITNESS: witness, "DVC_NO_ANALYTICS": "1"}
    try:
        done = subprocess.run(
            way.command,
            cwd=os.path.join(folder, "project"),
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return Finding(way.name, program, hooked=False, reason=str(exc))
    said = _last_line(witness)
    if said is None:
        return Finding(way.name, program, hooked=False, reason=_why_silent(done))
    return _judge(way, program, said)


def _why_silent(done: subprocess.CompletedProcess[str]) -> str:
    if settings.is_off():
        return f"{settings.ENV_OFF}=0"
    said = done.stderr.strip().splitlines()
    tail = f" ({said[-1]})" if done.returncode and said else ""
    return f"it imports another DVC, without this package, or is a frozen build{tail}"


def _judge(way: Way, program: str, said: dict[str, Any]) -> Finding:
    unbound = [name for name in way.needs if said["points"].get(name) != "bound"]
    if unbound:
        reason = f"not bound: {', '.join(unbound)}"
    elif said["failures"]:
        reason = f"failed: {said['failures'][0]}"
    else:
        other = said["version"] != dvc_ckpt_recover.__version__
        reason = f"by another copy, {said['version']}" if other else ""
        return Finding(way.name, program, hooked=True, reason=reason)
    return Finding(way.name, program, hooked=False, reason=reason)


def _last_line(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        found: dict[str, Any] = json.loads(lines[-1])
    except (OSError, ValueError, IndexError):
        return None
    return found


def _make_project(folder: str) -> None:
    path = os.path.join(folder, "project")
    os.mkdir(path)
    for command in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
        subprocess.run(command, cwd=path, check=True, capture_output=True)


def examine_all() -> list[Finding]:
    """Examine all ways in a scratch project of their own, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="dvc-ckpt-doctor-") as folder:
        _make_project(folder)
        return [examine(way, folder) for way in WAYS]


def _line(finding: Finding) -> str:
    state = "hooked" if finding.hooked else "NOT HOOKED"
    reason = f": {finding.reason}" if finding.reason else ""
    return f"{state:<11} {finding.name:<19} {finding.program}{reason}"


def main(argv: list[str]) -> int:
    """Print a line for each way; exit 1 if one is not hooked."""
    parser = argparse.ArgumentParser(prog="python -m dvc_ckpt_recover doctor")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    try:
        found = examine_all()
    except (OSError, subprocess.CalledProcessError) as exc:
        sys.stderr.write(f"doctor could not make its scratch project ({exc})\n")
        return 1
    lines = [_line(finding) for finding in found]
    text = json.dumps([asdict(f) for f in found], indent=1) if args.json else "\n".join(lines)
    sys.stdout.write(f"{text}\n")
    return 0 if all(finding.hooked for finding in found) else 1
