"""Make a commit an experiment of the main repository, under its own name or a free one.

Failure rule: an existing experiment is never overwritten; it is moved forward, or left alone.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from dvc_ckpt_recover.dvc_api.executors import experiment_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.git import Refs


def _names(ref: str, suffix: str) -> Iterator[str]:
    yield ref
    if suffix:
        yield f"{ref}-{suffix}"
    stem = f"{ref}-{suffix}" if suffix else ref
    yield from (f"{stem}-{number}" for number in itertools.count(2))


def publish(refs: Refs, ref: str, sha: str, suffix: str) -> str:
    """Point an experiment ref at ``sha``.

    Args:
        refs: The main repository's refs.
        ref: The ref wanted.
        sha: The commit.
        suffix: Added to the name when it is taken, then ``-2``, ``-3``, ...

    Returns:
        The ref that holds ``sha`` now.

    Raises:
        UnsafeError: Another process moved the ref at the same moment, or holds Git's lock.
        DamagedError: A ref of that name cannot be read.
    """
    for candidate in _names(ref, suffix):
        if refs.is_empty(candidate):  # a power cut; it names nothing that could be overwritten
            refs.mend(candidate, sha)
            return candidate
        old = refs.get(candidate)
        if old is not None and refs.store.is_ancestor(sha, old):
            return candidate
        if old is None and refs.is_blocked(candidate):
            continue
        if old is None or refs.store.is_ancestor(old, sha):
            refs.move(candidate, sha, old)
            return candidate
    raise AssertionError(experiment_name(ref))  # the names never end
