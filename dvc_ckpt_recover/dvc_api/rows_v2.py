"""Rows of ``dvc exp show`` as DVC before 2.55 makes them: a dict of dicts, one for each commit.

The experiments of a baseline lie flat beside it; those of one branch name their tip and parent.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.dvc_api.measured import is_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTIAL, RUNNING, FAILED = "Partial", "Running", "Failed"
_STATE = 5
"""Column of the state in ``_collect_rows``, whose first columns are fixed."""
_TYPE = 2


def commit_row(repo: Any, sha: str, status: str, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return DVC's row of a commit; one that cannot be read has an error and no values."""
    from dvc.repo.experiments import show
    from dvc.utils import onerror_collect

    read = getattr(show, "collect_experiment_commit", None)  # the name since 2.34.1
    row: dict[str, Any] = (read or show._collect_experiment_commit)(  # noqa: SLF001
        repo,
        sha,
        status=show.ExpStatus[status],
        running={sha: {}},
        onerror=onerror_collect,
        **kwargs,
    )
    return row


def whole_row(
    read: Callable[..., dict[str, Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    row: dict[str, Any],
) -> dict[str, Any]:
    """Return DVC's row of a commit as it should have been.

    An unreadable commit has no data, without which later steps fail. And since 2.46 the row may be
    from a cache, with the status that the run had then.

    Args:
        read: Reads a commit.
        args: That it was called with.
        kwargs: That it was called with.
        row: What it returned.
    """
    status = getattr(kwargs.get("status"), "name", "Success")
    if (row.get("data") or {}).get("status", status) != status:
        row = read(*args, **{**kwargs, "force": True})
    if not row.get("data"):
        row["data"] = {"status": status, "timestamp": None, "executor": None}
    return row


def drop_missing(data: dict[str, Any]) -> None:
    """Drop the errors for metrics files that a row's commit does not have."""
    metrics = data.get("metrics")
    if isinstance(metrics, dict):
        for path in [path for path, item in metrics.items() if is_missing(item)]:
            del metrics[path]


def link(rows: dict[str, dict[str, Any]], shas: list[str], baseline: str) -> None:
    """Make one experiment of the rows of ``shas``, newest first."""
    for i, sha in enumerate(shas):
        data = rows[sha].setdefault("data", {})
        data.pop("checkpoint_tip", None)
        data.pop("checkpoint_parent", None)
        if len(shas) > 1:
            data["checkpoint_tip"] = shas[0]
            data["checkpoint_parent"] = shas[i + 1] if i + 1 < len(shas) else baseline


def mark(rows: dict[str, dict[str, Any]], shas: list[str], **facts: Any) -> None:  # noqa: ANN401
    """Write what is known of a run into the row of its tip, and its status into each.

    Args:
        rows: All rows of the baseline.
        shas: Those of the run, newest first.
        facts: Goes into the tip's ``data``; ``status`` into that of all; None values do not.
    """
    for sha in shas:
        data = rows[sha]["data"]
        data["status"] = facts["status"]
        drop_missing(data)
    rows[shas[0]]["data"].update({k: v for k, v in facts.items() if v is not None})


def failed_row(repo: Any, stash_rev: str, cause: str, name: str | None) -> dict[str, Any]:  # noqa: ANN401
    """Return the row of a run that kept nothing: its params, its cause, and no metrics."""
    row = commit_row(repo, stash_rev, FAILED)
    row["data"]["error"] = {"msg": cause, "type": ""}
    row["data"]["cause"] = cause
    if name:
        row["data"]["name"] = name
    return row


def add_names(found: dict[str, dict[str, Any]], names: dict[str, str]) -> None:
    """Name the rows of experiments: commit -> name."""
    for rows in found.values():
        for rev, row in rows.items():
            if rev in names:
                row.setdefault("data", {})["name"] = names[rev]


def drop_names(found: dict[str, dict[str, Any]]) -> None:
    """Leave only hashes, as ``--sha`` does."""
    for rows in found.values():
        for row in rows.values():
            (row.get("data") or {}).pop("name", None)


def table_rows(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[list[Any]]:  # noqa: ANN401
    """Yield the table's rows, the state of a run with checkpoints in its first one only."""
    fill = kwargs.get("fill_value", "-")
    for row in original(*args, **kwargs):
        below = row[_TYPE] in ("checkpoint_commit", "checkpoint_base")
        if below and row[_STATE] in (PARTIAL, RUNNING):
            row[_STATE] = fill
        yield row


def queue_entry(queue: Any, stash_rev: str) -> Any | None:  # noqa: ANN401
    """Return the entry of a run whose temp dir is there, else None. Raises what DVC raises."""
    from dvc.repo.experiments.executor.base import ExecutorInfo
    from dvc.repo.experiments.queue.base import QueueEntry

    info = ExecutorInfo.load_json(queue.get_infofile_path(stash_rev))
    if not os.path.isdir(info.root_dir):
        return None
    return QueueEntry(
        queue.repo.root_dir,
        queue.scm.root_dir,
        queue.ref,
        stash_rev,
        info.baseline_rev,
        None,
        info.name,
        None,
    )


def task_process(queue: Any, stash_rev: str) -> dict[str, Any] | None:  # noqa: ANN401
    """Return what ``--json`` says of a queue task's process, or None when nothing is known."""
    try:
        process = queue.proc.get(stash_rev)
    except (OSError, TypeError, ValueError):  # DVC's own row of the task says that it is damaged
        return None
    if not process:
        return None
    return {
        "log": process.stdout,
        "pid": process.pid,
        "returncode": process.returncode,
        "task_id": stash_rev,
    }
