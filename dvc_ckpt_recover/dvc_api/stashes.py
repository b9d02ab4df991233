"""Read what DVC writes into the commit that holds a run's code and params."""

from __future__ import annotations

import re
from dataclasses import dataclass

# ExpStash.MESSAGE_RE in dvc.repo.experiments.stash, the same in all versions seen; there it has
# the reflog's "commit: " before it
_MESSAGE = re.compile(
    r"dvc-exp:(?P<head>[0-9a-f]+):(?P<baseline>[0-9a-f]+)"
    r":(?P<name>[^~^:\\?\[\]*]*)"
    r"(:(?P<branch>.+))?$"
)
ARGS_FILE = "tmp/repro.dat"
"""What ``.dvc`` holds in the commit of a run of that project."""


@dataclass(frozen=True)
class StashNote:
    """What the commit's message says.

    Attributes:
        baseline: Commit that the experiment belongs to.
        name: The experiment's name, or None when DVC makes one up at its end.
        branch: Ref of the experiment that it goes on, or None.
    """

    baseline: str
    name: str | None
    branch: str | None


def read_stash_message(message: str) -> StashNote | None:
    """Return what the message of a stash commit says, or None for another commit's."""
    found = _MESSAGE.search(message.strip())
    if found is None:
        return None
    return StashNote(found["baseline"], found["name"] or None, found["branch"])
