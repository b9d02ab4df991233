"""A private address for the checkpoint server of one run, short enough for a Unix socket."""

from __future__ import annotations

import os
import shutil
import tempfile

from shortuuid import uuid

_MAX_BASE = 60
"""Characters; the rest of the path takes less than the 47 that are left."""


class PrivateAddress:
    """An address that only this user can reach.

    Attributes:
        text: A Unix socket path in a folder of its own (mode 0700), or a Windows pipe name. A
            socket path holds about 107 bytes (unix(7)), so it does not lie in the repository.
        folder: That folder, or None for a pipe.
    """

    def __init__(self) -> None:
        self.folder: str | None = None
        if os.name == "nt":  # pragma: no cover
            self.text = rf"\\.\pipe\dvc-ckpt-recover-{uuid()}"
            return
        for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):  # noqa: S108
            if base and len(base) < _MAX_BASE and os.access(base, os.W_OK | os.X_OK):
                break
        self.folder = tempfile.mkdtemp(prefix="dvc-ckpt-", dir=base)
        self.text = os.path.join(self.folder, "s")

    def remove(self) -> None:
        """Remove what the address left on the disk."""
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
