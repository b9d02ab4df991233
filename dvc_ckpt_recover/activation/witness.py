"""Tell ``doctor`` that this process is hooked: a line in the file that it named.

Failure rule: a file that cannot be written is no error; doctor then takes the process for unhooked.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
from typing import TYPE_CHECKING

import dvc_ckpt_recover
from dvc_ckpt_recover import failures, settings

if TYPE_CHECKING:
    from dvc_ckpt_recover.patching import Binding


def testify_at_exit(bindings: dict[str, Binding]) -> None:
    """Write which points are bound when this process ends, if doctor asked for it."""
    path = os.environ.get(settings.ENV_WITNESS)
    if path:
        atexit.register(_testify, path, bindings)


def _testify(path: str, bindings: dict[str, Binding]) -> None:
    states = {name: binding.state for name, binding in bindings.items()}
    line = {
        "pid": os.getpid(),
        "version": dvc_ckpt_recover.__version__,
        "points": states,
        "failures": failures.seen(),
    }
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
