"""Handlers for ``dvc exp show`` and ``dvc queue status``. They look and never write."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.dvc_api.measured import without_missing
from dvc_ckpt_recover.dvc_api.project import place_of
from dvc_ckpt_recover.dvc_api.queues import Entries, entry_of, status_rows
from dvc_ckpt_recover.dvc_api.scm import readable_refs_only
from dvc_ckpt_recover.reporting import messages
from dvc_ckpt_recover.reporting.facts import Facts
from dvc_ckpt_recover.reporting.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.patching import Call, Steps
    from dvc_ckpt_recover.reporting.table import Table


_open: list[Table] = []
"""The table that is being collected, if one is."""


def _table(repo: Any) -> Table:  # noqa: ANN401
    from dvc_ckpt_recover.reporting.table import Table

    return _open[-1] if _open else Table(repo, Facts(*place_of(repo)))


@contextmanager
def _opened(repo: Any) -> Iterator[Table]:  # noqa: ANN401
    table = _table(repo)
    _open.append(table)
    try:
        yield table
    finally:
        _open.pop()


def collect(call: Call) -> Steps:
    """Around ``collect``: one table, whose parts share what is known of the runs."""
    with _opened(call["repo"]) as table, readable_refs_only(call["repo"].scm):
        table.facts.read()
        outcome = yield
    if outcome.error is None:
        hint(table.orphans)


def hint(orphans: set[str]) -> None:
    """Say in one line that runs wait for their recovery."""
    if orphans:
        runs = "1 run was" if len(orphans) == 1 else f"{len(orphans)} runs were"
        messages.say(
            [f"{runs} left behind by a dvc that died; bring in what is kept: dvc exp recover"]
        )


def collect_active(call: Call) -> Steps:
    """Around ``collect_active``: the running rows."""
    outcome = yield
    if outcome.error is None:
        _table(call["repo"]).active(outcome.value, call["baseline_revs"], call["kwargs"])


def collect_successful(call: Call) -> Steps:
    """Around ``collect_successful``: the published rows."""
    outcome = yield
    if outcome.error is None:
        _table(call["repo"]).successful(outcome.value, call["baseline_revs"], call["kwargs"])


def collect_failed(call: Call) -> Steps:
    """Around ``collect_failed``: the rows of what failed."""
    outcome = yield
    if outcome.error is None:
        _table(call["repo"]).failed(outcome.value, call["baseline_revs"], call["kwargs"])


_SOURCES = {
    "iter_active": "proc",  # of the queue of temp dirs
    "_iter_active_tasks": "_iter_processed",
    "_iter_done_tasks": "_iter_processed",
    "iter_done": "_iter_done_tasks",
    "collect_active_data": "iter_active",
    "collect_queued_data": "iter_queued",
    "collect_failed_data": "iter_failed",
    "collect_success_executors": "iter_success",
}
"""Method of a queue -> where it gets its entries from."""


def _entries(call: Call) -> Entries:
    return Entries(call, _SOURCES[call.original.__name__])


def queue_entries(call: Call) -> Steps:
    """Around what generates a queue's entries: a broken one costs itself alone."""
    entries = _entries(call)
    yield entries.generate


def queue_rows(call: Call) -> Steps:
    """Around what makes rows of a queue's entries: a broken one costs itself alone."""
    entries = _entries(call)
    yield lambda *_, **__: entries.collect()


def queue_active_rows(call: Call) -> Steps:
    """Around what makes rows of a queue's running entries: only of those that do run."""
    entries, queue = _entries(call), call["self"]
    table = _table(queue.repo)

    def is_running(item: Any) -> bool:  # noqa: ANN401
        entry = entry_of(item)
        running = table.is_running(queue, entry)
        if not running:
            table.look_into(entry.stash_rev, lambda: entries.one(item))
        return running

    yield lambda *_, **__: entries.collect(is_running)


def queue_status(call: Call) -> Steps:
    """Around ``status`` of a queue: Partial is a status, and a broken entry costs itself alone."""
    queue = call["self"]
    standing = Standing(queue.repo, Facts(*place_of(queue.repo)))
    yield lambda *_, **__: [
        {**row, "status": standing.task_status(queue, kind, entry, row["status"])}
        for kind, entry, row in status_rows(call)
    ]
    hint(standing.orphans)


def workspace_rows(call: Call) -> Steps:  # noqa: ARG001
    """Around what makes the row of a workspace run: when it is broken, there is none."""
    outcome = yield
    if isinstance(outcome.error, Exception):
        failures.note("the run in the workspace cannot be shown", outcome.error)
        outcome.value, outcome.error = {}, None


def state_read(call: Call) -> Steps:
    """Around ``SerializableExp.from_repo``: a checkpoint lacks metrics, which is no error.

    Rows with errors are never cached by DVC, so that they would be slow each time.
    """
    outcome = yield
    exp = outcome.value
    if outcome.error is None and exp.contains_error and call["rev"] not in (None, "workspace"):
        facts = Facts(*place_of(call["repo"]))
        if facts.is_ours(call["rev"]):
            outcome.value = without_missing(exp)


def table_rows(call: Call) -> Steps:
    """Around ``_exp_range_rows``: checkpoints are rows, on DVC 3 too."""
    from dvc_ckpt_recover.dvc_api import rows

    if not rows.is_tree(call["exp_range"]):
        yield
        return
    yield lambda *args, **kwargs: rows.table_rows(call.original, *args, **kwargs)


def table_order(call: Call) -> Steps:
    """Around ``_sort_exp``: rows without data come last instead of breaking the table."""
    from dvc_ckpt_recover.dvc_api import rows

    yield lambda experiments, *args, **kwargs: rows.ordered(
        call.original, experiments, *args, **kwargs
    )


def print_table(call: Call) -> Steps:  # noqa: ARG001
    """Around ``show_experiments``: DVC 3's table learns the signs of a tree."""
    from dvc_ckpt_recover.dvc_api import rows

    rows.add_tree_signs()
    yield
