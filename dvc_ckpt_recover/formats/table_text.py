"""Tables of text, such as DVCLive's plots: whole lines, each with as many columns as the first."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from dvc_ckpt_recover.formats.member import TornError

if TYPE_CHECKING:
    from dvc_ckpt_recover.formats.member import Member

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def fits(member: Member) -> bool:
    """Return whether the name says that it is a table."""
    return member.suffix in _DELIMITERS


def check(member: Member) -> bool:
    """Count the columns of each line; a last line without an end proves nothing.

    Raises:
        TornError: The last line has fewer columns.
    """
    try:
        text = member.read().decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text), delimiter=_DELIMITERS[member.suffix])
        rows = [row for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as exc:
        raise TornError(f"it does not read as a table ({exc})") from exc
    if not rows:
        return False
    if len(rows[-1]) < len(rows[0]):
        raise TornError("its last line is cut off")
    return text.endswith("\n")
