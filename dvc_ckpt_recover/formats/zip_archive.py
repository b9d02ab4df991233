"""Zip archives: PyTorch's files, NumPy's ``.npz``, Keras' ``.keras``.

Their directory stands at the end, so a file that was cut off has none. The checksums inside are not
looked at: PyTorch may leave them out (``torch.serialization.set_crc32_options``).
"""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from dvc_ckpt_recover.formats.member import TornError

if TYPE_CHECKING:
    from dvc_ckpt_recover.formats.member import Member

_ALWAYS = (".npz", ".keras", ".zip")
_MAYBE = (".pt", ".pth", ".ckpt", ".bin", ".tar")
"""Names of PyTorch's files; before 1.6 these were no archives, and ``.bin`` may be anything."""
_MAGIC = b"PK\x03\x04"


def fits(member: Member) -> bool:
    """Return whether it is an archive, or should be one."""
    if member.suffix in _ALWAYS:
        return True
    if member.suffix not in _MAYBE:
        return False
    return member.size == 0 or member.head().startswith(_MAGIC)


def check(member: Member) -> bool:
    """Read the directory, and look for each file where it says. Raises TornError."""
    if member.size == 0:
        raise TornError("it is empty")
    try:
        with member.open() as file, zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            for entry in entries:
                file.seek(entry.header_offset)
                if file.read(len(_MAGIC)) != _MAGIC:
                    raise TornError(f"{entry.filename} in it is overwritten")
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError) as exc:
        raise TornError(f"its directory cannot be read ({exc})") from exc
    return True
