"""Rows of ``dvc exp show`` as DVC 2.55 and later make them: lists of ExpRange.

Imported only once a table is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dvc.repo.experiments.serialize import (
    ExpExecutor,
    ExpRange,
    LocalExpExecutor,
    SerializableError,
    SerializableExp,
)

from dvc_ckpt_recover.dvc_api.measured import without_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TREE_SIGNS = {
    "checkpoint_tip": "│ ╓",
    "checkpoint_commit": "│ ╟",
    "checkpoint_base": "├─╨",
}
"""As in DVC 2; DVC 3 knows them no more."""
WITHOUT_DVC = "without dvc"


@dataclass
class RunExecutor(ExpExecutor):  # type: ignore[misc]
    """DVC's executor and what this package knows beside it; ``--json`` carries the fields.

    Attributes:
        cause: Why the run did not finish, or that its dvc is dead; one line.
        stage: Stage that was running.
        checkpoints: How many there are.
    """

    cause: str | None = None
    stage: str | None = None
    checkpoints: int | None = None


def states(repo: Any, shas: Iterable[str], kwargs: dict[str, Any]) -> list[Any]:  # noqa: ANN401
    """Return a row for each commit, its metrics of stages that did not start left out."""
    from dvc.repo.experiments.collect import collect_rev

    found = [collect_rev(repo, sha, **kwargs) for sha in shas]
    for state in found:
        keep_measured(state)
    return found


def keep_measured(state: Any) -> None:  # noqa: ANN401
    """Drop the errors for metrics files that a row's commit does not have."""
    if state.data is not None:
        state.data = without_missing(state.data)


def kept_range(revs: list[Any], name: str | None, executor: Any) -> Any:  # noqa: ANN401
    """Return the rows of one run or experiment, newest first, the first with the name."""
    for state in revs:
        state.name = None
        keep_measured(state)
    revs[0].name = name
    return ExpRange(revs, executor=executor, name=name)


def failed_range(
    repo: Any,  # noqa: ANN401
    stash_rev: str,
    name: str | None,
    executor: RunExecutor,
    kwargs: dict[str, Any],
) -> Any:  # noqa: ANN401
    """Return the row of a run that kept nothing: its params, its cause, and no metrics."""
    from dvc.repo.experiments.collect import collect_rev

    state = collect_rev(repo, stash_rev, **kwargs)
    data = state.data or SerializableExp(rev=stash_rev)
    state.data = replace(data, metrics={})
    state.name = name
    state.error = SerializableError(str(executor.cause))
    return ExpRange([state], executor=executor, name=name)


def task_process(queue: Any, stash_rev: str, *, root: str | None = None) -> Any:  # noqa: ANN401
    """Return what ``--json`` says of a queue task's process, or None when nothing is known."""
    try:
        process = queue.proc.get(stash_rev)
    except (OSError, TypeError, ValueError):  # DVC's own row of the task says that it is damaged
        return None
    if not process:
        return None
    return LocalExpExecutor(
        root=root,
        log=process.stdout,
        pid=process.pid,
        returncode=process.returncode,
        task_id=stash_rev,
    )


def is_tree(exp_range: Any) -> bool:  # noqa: ANN401
    """Return whether the rows behind the first one are checkpoints to be shown."""
    return isinstance(exp_range.executor, RunExecutor)


def table_rows(
    original: Callable[..., Any],
    exp_range: Any,  # noqa: ANN401
    all_headers: list[str],
    **kwargs: Any,  # noqa: ANN401
) -> Iterator[tuple[Any, ...]]:
    """Yield the table's rows of a run, each made by DVC itself, with the tree's signs."""
    last = len(exp_range.revs) - 1
    for i, state in enumerate(exp_range.revs):
        one = ExpRange([state], executor=None if i else exp_range.executor, name=state.name)
        (cells,) = original(one, all_headers=all_headers, **kwargs)
        row = dict(zip(all_headers, cells))
        if last:
            kind = "commit" if 0 < i < last else ("base" if i else "tip")
            row["typ"] = f"checkpoint_{kind}"
        if not i and exp_range.executor.state == "running" and exp_range.executor.cause:
            row["Executor"] = f"{row['Executor']} ({WITHOUT_DVC})"
        yield tuple(row.values())


def add_tree_signs() -> None:
    """Teach DVC 3's table the signs of DVC 2's checkpoints."""
    from dvc.commands.experiments import show

    for kind, sign in TREE_SIGNS.items():
        show.experiment_types.setdefault(kind, sign)


def ordered(
    original: Callable[..., Any],
    experiments: Iterable[Any],
    *args: Any,  # noqa: ANN401
    **kwargs: Any,  # noqa: ANN401
) -> list[Any]:
    """Return experiments as DVC sorts them; it cannot sort those whose tip has no data."""
    measured: list[Any] = []
    bare: list[Any] = []
    for exp_range in experiments:
        (measured if exp_range.revs and exp_range.revs[0].data else bare).append(exp_range)
    return [*original(measured, *args, **kwargs), *bare]
