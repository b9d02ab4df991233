"""One file to be looked into: on the disk, or bytes out of Git."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import BinaryIO

_HEAD = 16


class TornError(Exception):
    """A file is not whole.

    Args:
        reason: Why, one clause.
        path: Its path in the output, where the format looks at a folder.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.path = path


@dataclass(frozen=True)
class Member:
    """A file with the name that it has in the output.

    Attributes:
        name: Name with the suffix, without folders.
        path: Where it is, or None when its bytes are in ``data``.
        data: Its bytes, when ``path`` is None.
    """

    name: str
    path: str | None = None
    data: bytes = b""

    @property
    def suffix(self) -> str:
        """Return the name's last suffix in lower case, with the dot."""
        return os.path.splitext(self.name)[1].lower()

    @property
    def size(self) -> int:
        """Return how many bytes it has."""
        return os.path.getsize(self.path) if self.path else len(self.data)

    def open(self) -> BinaryIO:
        """Open it for reading."""
        return open(self.path, "rb") if self.path else io.BytesIO(self.data)

    def read(self) -> bytes:
        """Return all bytes."""
        with self.open() as file:
            return file.read()

    def head(self) -> bytes:
        """Return the first bytes, at most 16."""
        with self.open() as file:
            return file.read(_HEAD)
