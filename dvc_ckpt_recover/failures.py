"""Where this process notes what went wrong in our own code, for ``status`` and for the user.

Failure rule: noting never raises; a line goes to stderr once per kind.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback

ENV_DEBUG = "DVC_CKPT_RECOVER_DEBUG"
_seen: list[str] = []


def note(where: str, error: BaseException) -> None:
    """Note that ``error`` happened at ``where`` and tell it on stderr, once each.

    With ``DVC_CKPT_RECOVER_DEBUG`` set, the traceback is written too.
    """
    line = f"{where}: {error}" if str(error) else f"{where}: {error!r}"
    if line in _seen:
        return
    _seen.append(line)
    with contextlib.suppress(OSError, ValueError):  # a closed stderr
        sys.stderr.write(f"dvc_ckpt_recover: {line}\n")
        if os.environ.get(ENV_DEBUG):
            traceback.print_exception(type(error), error, error.__traceback__)


def seen() -> list[str]:
    """Return the lines noted in this process, oldest first."""
    return list(_seen)
