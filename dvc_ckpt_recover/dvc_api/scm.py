"""Have DVC see only the refs of a repository that can be read."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def readable_refs_only(scm: Any) -> Iterator[None]:  # noqa: ANN401
    """Leave out experiments whose commit cannot be read while the context lasts."""
    iter_refs = scm.iter_refs

    def readable(*args: Any, **kwargs: Any) -> Iterator[str]:  # noqa: ANN401
        return (ref for ref in iter_refs(*args, **kwargs) if _is_readable(scm, ref))

    scm.iter_refs = readable
    try:
        yield
    finally:
        del scm.iter_refs


def _is_readable(scm: Any, ref: str) -> bool:  # noqa: ANN401
    if not ref.startswith("refs/exps/"):
        return True  # a tag of a tree, say
    try:
        scm.resolve_commit(ref)
    except Exception:  # noqa: BLE001
        return False  # it was said when the experiments were read
    return True
