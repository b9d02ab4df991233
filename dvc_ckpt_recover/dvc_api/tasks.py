"""Remove what DVC keeps of experiments and queue tasks, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Collection

    from dvc_ckpt_recover.patching import Call


def as_list(names: Any) -> list[str]:  # noqa: ANN401
    """Return names given as DVC takes them: one, several or none."""
    if not names:
        return []
    return [names] if isinstance(names, str) else list(names)


def without_names(call: Call, parameter: str, ours: Collection[str]) -> Callable[..., Any] | None:
    """Return what removes by name, with names that DVC may not know; None when there are none.

    DVC refuses all of a list in which it does not know one name.
    """
    if not ours:
        return None
    theirs = [name for name in as_list(call[parameter]) if name not in ours]

    def remove(first: Any, *_: Any, **__: Any) -> list[str]:  # noqa: ANN401
        from dvc.repo.experiments.exceptions import UnresolvedExpNamesError

        arguments = dict(call.arguments)
        arguments.pop(next(iter(arguments)))
        removed = call.original(first, **{**arguments, parameter: theirs}) if theirs else []
        for name in ours:
            try:
                removed = [*removed, *call.original(first, **{**arguments, parameter: [name]})]
            except UnresolvedExpNamesError:
                continue  # only ours
        return removed

    return remove


def baselines(repo: Any, revs: list[str], num: int) -> set[str]:  # noqa: ANN401
    """Return the commits that ``--rev`` and ``--num`` mean."""
    from dvc.scm import iter_revs

    return set(iter_revs(repo.scm, revs, num))


def remove(repo: Any, stash_revs: Collection[str]) -> None:  # noqa: ANN401
    """Remove the records of ended queue tasks; those that are gone already are fine."""
    if not stash_revs:
        return
    from dvc.repo.experiments.queue.remove import remove_tasks

    queue = repo.experiments.celery_queue
    entries = [done.entry for done in queue.iter_done() if done.entry.stash_rev in stash_revs]
    if entries:
        remove_tasks(queue, entries)
