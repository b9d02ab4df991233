"""`python -m dvc_ckpt_recover status` and `doctor`, in processes of their own."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

import pytest
from support import DVC_VERSION, Project

NATIVE_ONLY = {"native_checkpoint"}
"""Points that DVC 3 does not have."""


def run(project: Project, *args: str, flags: tuple[str, ...] = (), **env: str) -> tuple[int, str]:
    """Run the package as a module and return exit code and output."""
    command = [sys.executable, *flags, "-m", "dvc_ckpt_recover", *args]
    done = project.run(*command, env=env, check=False, timeout=120)
    return done.returncode, done.stdout


def findings(project: Project, **env: str) -> tuple[int, dict[str, Any]]:
    """Run doctor and return its exit code and its findings by name."""
    code, text = run(project, "doctor", "--json", **env)
    return code, {found["name"]: found for found in json.loads(text)}


def test_status_tells_versions_and_every_point(project: Project) -> None:
    """All points of this version are bound; those of DVC 2 are no fault on DVC 3."""
    code, text = run(project, "status", "--json")
    found = json.loads(text)
    states = {point["point"]: point["state"] for point in found["points"]}
    absent = {name for name, state in states.items() if state == "not in this version"}
    assert code == 0, text
    assert found["versions"]["dvc"] == ".".join(map(str, DVC_VERSION))
    assert found["versions"]["git"][0].isdigit()
    assert {"init_git", "reproduce", "cleanup", "stage_command", "main"} <= set(states)
    assert set(states.values()) <= {"bound", "not in this version"}
    assert not NATIVE_ONLY - absent if DVC_VERSION >= (3,) else not NATIVE_ONLY & absent


def test_status_says_why_nothing_is_bound(project: Project) -> None:
    """Switched off, and in a Python that reads no .pth files."""
    code, text = run(project, "status", DVC_CKPT_RECOVER="0")
    assert code == 1
    assert "off: DVC_CKPT_RECOVER=0" in text


def test_doctor_finds_all_ways_hooked(project: Project) -> None:
    """The four ways into DVC, from any folder; nothing is left in the project."""
    before = project.git("status", "--porcelain")
    code, found = findings(project)
    assert code == 0, found
    assert [name for name, way in found.items() if not way["hooked"]] == []
    assert len(found) == 4
    assert project.git("status", "--porcelain") == before


@pytest.mark.parametrize("how", ["off", "another dvc first on PATH"])
def test_doctor_names_what_is_not_hooked(project: Project, how: str) -> None:
    """Exit 1, and the program with the reason."""
    folder = project.outside / "bin"
    folder.mkdir()
    if how == "off":
        code, found = findings(project, DVC_CKPT_RECOVER="0")
        hooked: set[str] = set()
        reason = "DVC_CKPT_RECOVER=0"
    else:
        (folder / "git").symlink_to(str(shutil.which("git")))
        (folder / "dvc").write_text("#!/bin/sh\nexit 0\n", encoding="ascii")
        (folder / "dvc").chmod(0o755)
        reason = "another DVC"
        code, found = findings(project, PATH=str(folder))
        hooked = {"python -m dvc", "a Repo() in Python"}
    assert code == 1
    assert {name for name, way in found.items() if way["hooked"]} == hooked
    assert reason in found["dvc exp exec-run"]["reason"]


def test_an_unknown_command_is_refused(project: Project) -> None:
    """With the list of those there are."""
    code, text = run(project, "nonsense")
    assert code == 2
    assert "doctor" in text
