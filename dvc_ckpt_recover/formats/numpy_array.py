"""NumPy's ``.npy``: a header with shape and type, and as many bytes as these need."""

from __future__ import annotations

import ast
import math
import re
from typing import TYPE_CHECKING

from dvc_ckpt_recover.formats.member import TornError

if TYPE_CHECKING:
    from dvc_ckpt_recover.formats.member import Member

_MAGIC = b"\x93NUMPY"


def fits(member: Member) -> bool:
    """Return whether the name says so."""
    return member.suffix == ".npy"


def check(member: Member) -> bool:
    """Compare the header with the file's size; arrays of objects prove nothing.

    Raises:
        TornError: The header is broken, or the file has another size.
    """
    with member.open() as file:
        magic = file.read(8)
        if magic[:6] != _MAGIC or len(magic) != 8:  # noqa: PLR2004
            raise TornError("it does not start as an array does")
        width = 2 if magic[6] == 1 else 4
        length = int.from_bytes(file.read(width), "little")
        text = file.read(length)
    if len(text) != length:
        raise TornError("its header is cut off")
    try:
        header = ast.literal_eval(text.decode("utf-8"))
        shape, descr = header["shape"], str(header["descr"])
    except (ValueError, SyntaxError, KeyError, TypeError) as exc:
        raise TornError(f"its header cannot be read ({exc})") from exc
    kind = re.fullmatch(r"[<>|=]?([?biufcmMSUV])(\d*)(\[.*\])?", descr)
    if kind is None:
        return False
    item = int(kind.group(2) or 1) * (4 if kind.group(1) == "U" else 1)
    should = 8 + width + length + math.prod(shape) * item
    if member.size != should:
        raise TornError(f"it has {member.size} bytes, its header says {should}")
    return True
