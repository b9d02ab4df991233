"""``checkpoint: true`` on DVC 3, which accepts it and forgets it: the output persists.

3.0.0 refuses it in the schema; 3.67.1 drops it in ``load_from_pipeline`` and deletes the output
before each run. A persisting output is left alone, checked out from ``dvc.lock`` at the start of a
run, and its stage is kept out of the run cache, for what it makes depends on what was there.
"""

from __future__ import annotations

from typing import Any

_CHECKPOINT = "checkpoint"
_PERSIST = "persist"


def mark_checkpoints(outs: list[Any], data: Any) -> list[Any]:  # noqa: ANN401
    """Return ``outs``, those marked in ``data`` as persisting.

    Args:
        outs: What ``load_from_pipeline`` returns for ``data``, in the same order.
        data: One of a stage's lists in ``dvc.yaml``.
    """
    from dvc.output import _merge_data

    for out, flags in zip(outs, _merge_data(data).values()):
        if isinstance(flags, dict) and flags.get(_CHECKPOINT):
            out.checkpoint = True
            out.persist = True
    return outs


def flags_as_read(out: Any, flags: Any) -> Any:  # noqa: ANN401
    """Return an output's flags for ``dvc.yaml`` with ``checkpoint`` where it was read."""
    if not getattr(out, _CHECKPOINT, False):
        return flags
    pairs = [(_CHECKPOINT if key == _PERSIST else key, value) for key, value in flags.items()]
    return type(flags)(pairs)
