"""Tell whether files are whole, by what their formats say of themselves.

Nothing is loaded: a file from a dead trainer is read, never executed. A new format is a module with
``fits`` and ``check`` and a place in one of the two lists below.

Failure rule: a file that a format knows and finds broken is torn, with the reason; one that no
format knows is neither torn nor proven.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dvc_ckpt_recover.resuming.formats import (
    dcp,
    huggingface,
    json_text,
    numpy_array,
    orbax,
    pickle_stream,
    safetensors,
    sharded,
    table_text,
    yaml_text,
    zip_archive,
)
from dvc_ckpt_recover.resuming.formats.member import Member, TornError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Inspection", "Member", "TornError", "inspect"]


class FileFormat(Protocol):
    """A format of single files."""

    def fits(self, member: Member) -> bool:
        """Return whether the file is meant to be of this format."""

    def check(self, member: Member) -> bool:
        """Return whether the file is proven whole; raise TornError when it is broken."""


class FolderFormat(Protocol):
    """A format of folders, whose files vouch for each other."""

    def fits(self, members: Mapping[str, Member]) -> bool:
        """Return whether the folder is meant to be of this format."""

    def check(self, members: Mapping[str, Member]) -> set[str]:
        """Return the files proven whole; raise TornError when one is missing or broken."""


FILES: tuple[FileFormat, ...] = (
    json_text,
    yaml_text,
    table_text,
    safetensors,
    zip_archive,
    numpy_array,
    pickle_stream,
)
"""The first that fits has its say."""

FOLDERS: tuple[FolderFormat, ...] = (sharded, orbax, dcp, huggingface)
"""All that fit have their say."""


@dataclass
class Inspection:
    """What the formats say of one output.

    Attributes:
        torn: Path in the output (empty for the output itself) -> why it is not whole.
        unknown: Paths of which no format can tell.
    """

    torn: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def inspect(members: Mapping[str, Member]) -> Inspection:
    """Look into an output.

    Args:
        members: Path in the output -> file; the path is empty when the output is a single file.
    """
    found = Inspection()
    proven: set[str] = set()
    for folder in FOLDERS:
        if "" not in members and folder.fits(members):
            try:
                proven |= folder.check(members)
            except TornError as exc:
                found.torn[exc.path] = str(exc)
    for path, member in members.items():
        try:
            if not _is_proven(member) and path not in proven:
                found.unknown.append(path)
        except TornError as exc:
            found.torn[path] = str(exc)
    return found


def _is_proven(member: Member) -> bool:
    for one in FILES:
        if one.fits(member):
            return one.check(member)
    return False
