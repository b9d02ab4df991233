"""Pickles: the stream is read to its end and never loaded, which would run code.

joblib writes arrays between a pickle's parts, so a stream that cannot be followed may still be
whole: it is then neither proven nor torn, except when it is empty.
"""

from __future__ import annotations

import pickletools
from typing import TYPE_CHECKING

from dvc_ckpt_recover.formats.member import TornError

if TYPE_CHECKING:
    from dvc_ckpt_recover.formats.member import Member


def fits(member: Member) -> bool:
    """Return whether the name says so."""
    return member.suffix in (".pkl", ".pickle")


def check(member: Member) -> bool:
    """Follow the stream to a stop at the end of the file. Raises TornError when it is empty."""
    size = member.size
    if size == 0:
        raise TornError("it is empty")
    with member.open() as file:
        try:
            while file.tell() < size:
                for _ in pickletools.genops(file):
                    pass
        except Exception:  # noqa: BLE001 - pickletools raises whatever the bytes lead it to
            return False
    return True
