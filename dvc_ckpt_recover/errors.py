"""Errors of this package: each says what happened, what was kept and what to do next."""

from __future__ import annotations


class RecoverError(Exception):
    """Base of all errors of this package.

    Args:
        happened: What went wrong, one clause.
        kept: What is safe in spite of it, or None.
        todo: What the user can do next, or None.
    """

    exit_code = 1

    def __init__(self, happened: str, kept: str | None = None, todo: str | None = None) -> None:
        super().__init__(happened, kept, todo)
        self.happened, self.kept, self.todo = happened, kept, todo

    def __str__(self) -> str:
        """Return the parts on one line."""
        return "; ".join(part for part in (self.happened, self.kept, self.todo) if part)


class DamagedError(RecoverError):
    """A record, ref or object cannot be read or has other bytes than its name says."""

    exit_code = 3


class UnsafeError(RecoverError):
    """Something is not proven to be in the main repository, so nothing is removed."""

    exit_code = 4


class NotFoundError(RecoverError):
    """No run, experiment or checkpoint has that name."""

    exit_code = 5


class RefusedError(RecoverError):
    """The request makes no sense in the state that the run is in."""

    exit_code = 6


class CheckpointSkippedError(RecoverError):
    """One checkpoint could not be taken; the training goes on."""
