"""Read and write ``dvc.lock``: as text, so that a damaged one never stops DVC itself."""

from __future__ import annotations

import copy
import io
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from dvc_ckpt_recover.errors import DamagedError

LOCK_NAME = "dvc.lock"
PIPELINE_NAME = "dvc.yaml"
_UNFINISHED = "# unfinished (checkpoint {number}): "


@dataclass(frozen=True)
class LockedOut:
    """One output in a ``dvc.lock``.

    Attributes:
        path: As in the file, relative to the stage's working directory.
        oid: Its hash; ends in ``.dir`` for a folder.
        hash_name: ``md5``, or ``md5-dos2unix`` for entries written by DVC 2.
        stage: Name of its stage.
        unfinished: Whether a checkpoint of the running stage wrote it.
    """

    path: str
    oid: str
    hash_name: str
    stage: str
    unfinished: bool = False


@lru_cache(maxsize=32)
def _load(data: bytes) -> Any:  # noqa: ANN401
    """Read YAML, once for the same bytes; without plug-ins, which are looked for on the disk."""
    return YAML(typ="safe", plug_ins=[]).load(data.decode("utf-8"))


def parse(data: bytes, where: str = LOCK_NAME) -> dict[str, Any]:
    """Return the content of a lock file. Raises DamagedError."""
    try:
        value = copy.deepcopy(_load(data))
    except (YAMLError, ValueError) as exc:
        msg = f"{where} cannot be read ({str(exc).splitlines()[0]})"
        raise DamagedError(msg) from exc
    if value is None:
        return {}
    if not isinstance(value, dict) or not isinstance(value.get("stages", {}), dict):
        msg = f"{where} is not a lock file"
        raise DamagedError(msg)
    return value


def dump(value: dict[str, Any]) -> bytes:
    """Return the bytes of a lock file, in the form that DVC writes."""
    yaml = YAML(plug_ins=[])
    yaml.default_flow_style = False
    stream = io.StringIO()
    yaml.dump(value, stream)
    return stream.getvalue().encode("utf-8")


def unfinished_command(cmd: Any, number: int) -> str:  # noqa: ANN401
    """Return a ``cmd`` that cannot match the stage's, so that DVC sees the stage as changed."""
    text = cmd if isinstance(cmd, str) else " && ".join(map(str, cmd or []))
    return _UNFINISHED.format(number=number) + " ".join(text.split())


def is_unfinished(entry: dict[str, Any]) -> bool:
    """Return whether a stage's entry was written by a checkpoint of the running stage."""
    return str(entry.get("cmd", "")).startswith(_UNFINISHED.partition("(")[0])


def unfinished_number(entry: dict[str, Any]) -> int | None:
    """Return the number of the checkpoint that wrote a stage's entry, None for a finished stage."""
    found = re.match(r"# unfinished \(checkpoint (\d+)\): ", str(entry.get("cmd", "")))
    return int(found.group(1)) if found else None


def working_dirs(pipeline: bytes | None) -> dict[str, str]:
    """Return where stages work that do not work in their file's folder: name -> relative path.

    Names are those before the ``@`` of a ``foreach`` or ``matrix``. Templates count as they stand.
    """
    try:
        stages = parse(pipeline or b"", PIPELINE_NAME).get("stages") or {}
    except DamagedError:
        return {}
    found = {}
    for name, entry in stages.items():
        if isinstance(entry, dict):
            repeated = entry.get("do")
            wdir = (repeated if isinstance(repeated, dict) else entry).get("wdir")
            if isinstance(wdir, str):
                found[str(name)] = wdir
    return found


def locked_outs(value: dict[str, Any]) -> list[LockedOut]:
    """Return the outputs of a lock file that are stored by their hash."""
    found = []
    for stage, entry in (value.get("stages") or {}).items():
        for out in (entry or {}).get("outs") or []:
            if isinstance(out, dict) and isinstance(out.get("md5"), str):
                name = "md5" if out.get("hash") == "md5" else "md5-dos2unix"
                half = is_unfinished(entry)
                found.append(LockedOut(str(out.get("path")), out["md5"], name, str(stage), half))
    return found
