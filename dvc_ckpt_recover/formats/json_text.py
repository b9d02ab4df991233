"""JSON, one value or one on each line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dvc_ckpt_recover.formats.member import TornError

if TYPE_CHECKING:
    from dvc_ckpt_recover.formats.member import Member


_LINES = (".jsonl", ".ndjson")


def fits(member: Member) -> bool:
    """Return whether the name says JSON."""
    return member.suffix == ".json" or member.suffix in _LINES


def check(member: Member) -> bool:
    """Parse it. Raises TornError."""
    try:
        text = member.read().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise TornError(f"it is no text ({exc})") from exc
    if _is_lines(text):
        return True
    try:
        json.loads(text)
    except ValueError as exc:
        raise TornError(f"it does not parse as JSON ({exc})") from exc
    return member.suffix not in _LINES


def _is_lines(text: str) -> bool:
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        for line in lines:
            json.loads(line)
    except ValueError:
        return False
    return bool(lines) and text.endswith("\n")
