"""YAML. A mapping cut off between two lines still parses, so only a last line that ends counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from dvc_ckpt_recover.formats.member import TornError

if TYPE_CHECKING:
    from dvc_ckpt_recover.formats.member import Member


def fits(member: Member) -> bool:
    """Return whether the name says YAML."""
    return member.suffix in (".yaml", ".yml")


def check(member: Member) -> bool:
    """Parse it. Raises TornError."""
    data = member.read()
    try:
        list(YAML(typ="safe", pure=True).load_all(data.decode("utf-8")))
    except (YAMLError, ValueError) as exc:
        first = str(exc).splitlines()[0]
        raise TornError(f"it does not parse as YAML ({first})") from exc
    return data.endswith(b"\n")
