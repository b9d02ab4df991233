"""PyTorch's distributed checkpoints: ``.metadata`` is renamed into place when all is written.

It is a pickle that names, for each tensor, file, offset and length. It is read with stand-ins for
all classes, so that nothing of it is executed and PyTorch is not needed.
"""

from __future__ import annotations

import io
import pickle
import posixpath
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.formats.member import TornError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dvc_ckpt_recover.formats.member import Member

_METADATA = ".metadata"
_DATA = ".distcp"


class _StandIn:
    """Takes the place of any class in the pickle, whose objects may be made without a call."""

    state: Any = None

    def __new__(cls, *_: Any, **__: Any) -> _StandIn:  # noqa: ANN401, PYI034
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
        """Take whatever the class takes."""

    def __setstate__(self, state: Any) -> None:  # noqa: ANN401
        self.state = state

    def __call__(self, *_: Any, **__: Any) -> _StandIn:  # noqa: ANN401
        return _StandIn()


class _Reader(pickle.Unpickler):
    """Loads no class and calls none."""

    def find_class(self, _module: str, _name: str) -> Any:  # noqa: ANN401
        return type("_Any", (_StandIn,), {})

    def persistent_load(self, _pid: Any) -> Any:  # noqa: ANN401
        return _StandIn()


def fits(members: Mapping[str, Member]) -> bool:
    """Return whether there are files of such a checkpoint."""
    return any(path.endswith(_DATA) for path in members)


def check(members: Mapping[str, Member]) -> set[str]:
    """Compare each data file with what the metadata says.

    Returns:
        The files that belong together.

    Raises:
        TornError: The metadata or a file is missing, or a file is too short.
    """
    proven: set[str] = set()
    for folder in sorted({posixpath.dirname(path) for path in members if path.endswith(_DATA)}):
        metadata = posixpath.join(folder, _METADATA)
        if metadata not in members:
            raise TornError("it was not finished: it has no .metadata", folder)
        for name, end in _ends(members[metadata], metadata).items():
            path = posixpath.join(folder, name)
            if path not in members:
                raise TornError("the metadata names it, and it is missing", path)
            if members[path].size < end:
                raise TornError(f"it has {members[path].size} bytes, {end} are needed", path)
            proven.add(path)
        proven.add(metadata)
    return proven


def _ends(metadata: Member, path: str) -> dict[str, int]:
    """Return the least size of each data file that the metadata names."""
    try:
        top = _Reader(io.BytesIO(metadata.read())).load()
    except Exception as exc:
        raise TornError(f"the metadata cannot be read ({exc!r})", path) from exc
    ends: dict[str, int] = {}
    for state in _states(top, set()):
        if {"relative_path", "offset", "length"} <= state.keys():
            name = str(state["relative_path"])
            ends[name] = max(ends.get(name, 0), int(state["offset"]) + int(state["length"]))
    if not ends:
        raise TornError("the metadata names no file", path)
    return ends


def _states(value: Any, seen: set[int]) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    """Yield the attributes of all objects in a value, each once."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, _StandIn):
        if isinstance(value.state, dict):
            yield value.state
        yield from _states(value.state, seen)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _states(key, seen)
            yield from _states(item, seen)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from _states(item, seen)
