"""The Hugging Face Trainer's ``checkpoint-N`` folders: ``trainer_state.json`` is written last.

A trainer goes on from the folder with the highest number, whole or not, so that one counts.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from dvc_ckpt_recover.formats.member import TornError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dvc_ckpt_recover.formats.member import Member

_STEP = re.compile(r"(?:(.*)/)?checkpoint-(\d+)/")
_STATE = "trainer_state.json"
_WEIGHTS = re.compile(r"(model|pytorch_model|adapter_model).*\.(safetensors|bin)(\.index\.json)?$")


def _steps(members: Mapping[str, Member]) -> dict[str, dict[int, str]]:
    """Return the steps: folder -> number -> path of the step, with a slash at its end."""
    found: dict[str, dict[int, str]] = {}
    for path in members:
        step = _STEP.match(path)
        if step:
            found.setdefault(step.group(1) or "", {})[int(step.group(2))] = step.group(0)
    return found


def fits(members: Mapping[str, Member]) -> bool:
    """Return whether there is a step's folder with weights or the trainer's state in it."""
    inside = [path.rpartition("/")[2] for path in members if _STEP.match(path)]
    return any(name == _STATE or _WEIGHTS.match(name) for name in inside)


def check(members: Mapping[str, Member]) -> set[str]:
    """Look for state and weights of the newest step.

    Returns:
        The files of all steps that have the state.

    Raises:
        TornError: The newest step has no readable state, or no weights.
    """
    for steps in _steps(members).values():
        newest = steps[max(steps)]
        state = f"{newest}{_STATE}"
        if state not in members:
            raise TornError(f"it was not finished: it has no {_STATE}", newest.rstrip("/"))
        try:
            json.loads(members[state].read())
        except ValueError as exc:
            raise TornError(f"it does not parse ({exc})", state) from exc
        inside = (path[len(newest) :] for path in members if path.startswith(newest))
        if not any(_WEIGHTS.match(name) for name in inside):
            raise TornError("it has no weights", newest.rstrip("/"))
    done = tuple(path[: -len(_STATE)] for path in members if path.endswith(f"/{_STATE}"))
    return {path for path in members if path.startswith(done)}
