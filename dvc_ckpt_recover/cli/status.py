"""``status``: what is true of this process, without starting another.

Failure rule: a fact that cannot be had is said in its place; exit 1 when the package does not work.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from typing import Any

import dvc_ckpt_recover
from dvc_ckpt_recover import activation, failures, settings

BOUND, WAITING, ABSENT = "bound", "waiting", "not in this version"


def _git_version() -> str:
    try:
        done = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as exc:
        return f"not found ({exc})"
    return done.stdout.strip().rpartition(" ")[2]


def _dvc_version() -> str:
    try:
        from dvc_ckpt_recover.dvc_api.version import dvc_version

        return str(dvc_version())
    except ImportError as exc:
        return f"not found ({exc})"


def _points() -> list[dict[str, str]]:
    from dvc_ckpt_recover.dvc_api.modules import load_point_modules

    failed = load_point_modules()
    found = []
    for name, binding in activation.bindings.items():
        point, state, reason = binding.point, binding.state, binding.reason
        if state == WAITING:
            state, reason = _unbound(point, failed.get(point.module, "its module was not watched"))
        target = f"{point.module}.{point.qualname}"
        found.append({"point": name, "target": target, "state": state, "reason": reason})
    return found


def _unbound(point: Any, why: str) -> tuple[str, str]:  # noqa: ANN401
    """Return state and reason of a point whose module could not be imported."""
    from dvc_ckpt_recover.dvc_api.version import in_window

    return ("missing", why) if in_window(point.window) else (ABSENT, "")


def _why_off() -> str:
    if settings.is_off():
        return f"{settings.ENV_OFF}=0"
    if not activation.bindings:
        return "the start-up hook is not armed in this Python (python -S? not installed with pip?)"
    return ""


def _skipped() -> dict[str, list[str]]:
    """Return what checkpoints were skipped of the project's runs that are open: name -> why."""
    from dvc_ckpt_recover.dvc_api.project import tmp_dir_here
    from dvc_ckpt_recover.runs import Places, load_all

    folder = tmp_dir_here()
    records = load_all(Places(folder))[0] if folder else []
    return {
        record.name or record.run_id: list(record.skipped) for record in records if record.skipped
    }


def facts() -> dict[str, Any]:
    """Return the facts of this process; DVC's modules are imported for it."""
    versions = {
        "dvc_ckpt_recover": dvc_ckpt_recover.__version__,
        "dvc": _dvc_version(),
        "python": platform.python_version(),
        "git": _git_version(),
    }
    points = [] if settings.is_off() else _points()
    off = _why_off()
    return {
        "versions": versions,
        "off": off,
        "points": points,
        "failures": failures.seen(),
        "skipped": _skipped() if points else {},
    }


def is_whole(found: dict[str, Any]) -> bool:
    """Return whether all that this version of DVC has is bound, and nothing failed."""
    states = {point["state"] for point in found["points"]}
    return not found["off"] and not found["failures"] and states <= {BOUND, ABSENT}


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"{name:<17} {version}" for name, version in found["versions"].items()]
    lines += ["", f"off: {found['off']}" if found["off"] else "on", ""]
    for point in found["points"]:
        reason = f" ({point['reason']})" if point["reason"] else ""
        lines.append(f"  {point['point']:<20} {point['state']:<20} {point['target']}{reason}")
    lines += ["", *(f"failed: {line}" for line in found["failures"])]
    for name, reasons in found["skipped"].items():
        lines.append(f"run {name}: {len(reasons)} checkpoint(s) skipped: {reasons[-1]}")
    return lines


def main(argv: list[str]) -> int:
    """Print the facts; exit 1 when something is off, missing or failed."""
    parser = argparse.ArgumentParser(prog="python -m dvc_ckpt_recover status")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    found = facts()
    text = json.dumps(found, indent=1) if args.json else "\n".join(_lines(found)).rstrip()
    sys.stdout.write(f"{text}\n")
    return 0 if is_whole(found) else 1
