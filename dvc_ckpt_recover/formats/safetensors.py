"""safetensors: 8 bytes of length, a JSON header of that length, then the tensors it names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.formats.member import TornError

if TYPE_CHECKING:
    from dvc_ckpt_recover.formats.member import Member

_PREFIX = 8
_MAX_HEADER = 100_000_000
"""Bytes; the format's own limit."""


def fits(member: Member) -> bool:
    """Return whether the name says safetensors."""
    return member.suffix == ".safetensors"


def check(member: Member) -> bool:
    """Compare the header with the file's size. Raises TornError."""
    header, start = _header(member)
    ends = [_end(value) for name, value in header.items() if name != "__metadata__"]
    should = start + max(ends, default=0)
    if member.size != should:
        raise TornError(f"it has {member.size} bytes, its header says {should}")
    return True


def _header(member: Member) -> tuple[dict[str, Any], int]:
    with member.open() as file:
        length = int.from_bytes(file.read(_PREFIX), "little")
        if member.size < _PREFIX or length > min(_MAX_HEADER, member.size):
            raise TornError("its header is cut off")
        data = file.read(length)
    try:
        header = json.loads(data.decode("utf-8"))
    except ValueError as exc:
        raise TornError(f"its header does not parse ({exc})") from exc
    if not isinstance(header, dict):
        raise TornError("its header is no mapping")
    return header, _PREFIX + length


def _end(value: Any) -> int:  # noqa: ANN401
    try:
        return int(value["data_offsets"][1])
    except (KeyError, IndexError, TypeError, ValueError) as exc:
        raise TornError("its header names a tensor without its place") from exc
