"""Models in shards with an index, as Hugging Face writes them: every shard must be there."""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING

from dvc_ckpt_recover.formats.member import TornError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dvc_ckpt_recover.formats.member import Member

_SUFFIXES = (".safetensors.index.json", ".bin.index.json")


def fits(members: Mapping[str, Member]) -> bool:
    """Return whether there is an index."""
    return any(path.endswith(_SUFFIXES) for path in members)


def check(members: Mapping[str, Member]) -> set[str]:
    """Look for the shards that each index names; they prove themselves. Raises TornError."""
    for path in members:
        if not path.endswith(_SUFFIXES):
            continue
        try:
            shards = set(json.loads(members[path].read())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise TornError(f"the index cannot be read ({exc})", path) from exc
        folder = posixpath.dirname(path)
        missing = sorted(
            str(shard) for shard in shards if posixpath.join(folder, str(shard)) not in members
        )
        if missing:
            what = f"{len(missing)} of {len(shards)} shards are missing"
            raise TornError(f"{what}: {missing[0]}", path)
    return set()
