"""Why a run ended: one value, one line of text."""

from __future__ import annotations

import signal
from dataclasses import dataclass

_SHELL = 128
"""What a shell adds to the number of the signal that ended its command."""


def _signal_text(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def returncode_text(returncode: int) -> str:
    """Describe the return code of a stage command.

    Args:
        returncode: As ``subprocess`` gives it: below 0 for a signal. A shell that waits for the
            command reports the signal as 128 plus its number (POSIX, section 2.8.2).

    Returns:
        For example ``signal 9 (SIGKILL)`` or ``exit code 3``.
    """
    if returncode < 0:
        return _signal_text(-returncode)
    if _SHELL < returncode < _SHELL + 65:
        return _signal_text(returncode - _SHELL)
    return f"exit code {returncode}"


@dataclass(frozen=True)
class Cause:
    """Why a run ended without finishing.

    Attributes:
        text: What happened, on one line.
        stage: Address of the stage that was running, or None outside a stage.
    """

    text: str
    stage: str | None = None

    @classmethod
    def of_returncode(cls, stage: str, returncode: int) -> Cause:
        """Return the cause of a stage command that ended with ``returncode``."""
        return cls(returncode_text(returncode), stage)

    @classmethod
    def of_error(cls, error: BaseException, stage: str | None = None) -> Cause:
        """Return the cause for an exception of DVC itself."""
        if isinstance(error, KeyboardInterrupt):
            return cls("interrupted (Ctrl-C)", stage)
        first_line = next(iter(str(error).splitlines()), "")
        return cls(first_line or type(error).__name__, stage)

    @classmethod
    def parse(cls, line: str) -> Cause:
        """Read back what ``str`` made."""
        if line.startswith("stage "):
            stage, sep, text = line[len("stage ") :].rpartition(": ")
            if sep and stage:
                return cls(text, stage)
        return cls(line)

    def __str__(self) -> str:
        """Return the line used in messages and commit trailers."""
        text = " ".join(self.text.split())
        return f"stage {self.stage}: {text}" if self.stage else text
