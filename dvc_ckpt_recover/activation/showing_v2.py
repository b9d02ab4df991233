"""Handlers for ``dvc exp show`` before DVC 2.55, see ``showing`` for the later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.activation.showing import hint
from dvc_ckpt_recover.dvc_api import rows_v2
from dvc_ckpt_recover.dvc_api.project import place_of
from dvc_ckpt_recover.dvc_api.scm import readable_refs_only
from dvc_ckpt_recover.reporting.facts import Facts
from dvc_ckpt_recover.reporting.table_v2 import TableV2

if TYPE_CHECKING:
    from dvc_ckpt_recover.patching import Call, Steps


_open: list[TableV2] = []
"""The table that is being collected, if one is."""


def show(call: Call) -> Steps:
    """Around ``show``: nothing is fetched from running experiments, since looking never writes."""
    repo = call["repo"]
    table = TableV2(repo, Facts(*place_of(repo)))
    table.facts.read()
    _open.append(table)
    try:
        with readable_refs_only(repo.scm):
            outcome = yield lambda *_, **__: call.original(
                **{**call.arguments, "fetch_running": False}
            )
    finally:
        _open.pop()
    if outcome.error is None:
        table.finish(outcome.value, hide_failed=call["hide_failed"])
        if call["sha_only"]:
            rows_v2.drop_names(outcome.value)
        hint(table.orphans)


def names_read(call: Call) -> Steps:
    """Around ``get_names``: one unreadable commit leaves it without any name; ours are read."""
    outcome = yield
    if isinstance(outcome.error, Exception):
        facts = _open[-1].facts if _open else Facts(*place_of(call["repo"]))
        rows_v2.add_names(call["result"], {e.tip: e.name for e in facts.experiments.values()})
        outcome.error = None


def commit_read(call: Call) -> Steps:
    """Around the reader of one commit: an unreadable one is a row with an error."""
    outcome = yield
    if outcome.error is None:
        outcome.value = rows_v2.whole_row(call.original, call.args, call.kwargs, outcome.value)


def branch_read(call: Call) -> Steps:
    """Around ``_collect_experiment_branch``: an unreadable experiment costs its own row."""
    outcome = yield
    if isinstance(outcome.error, Exception):
        if not _open or call["branch"] in _open[-1].facts.experiments:  # else it was said
            failures.note(f"the experiment {call['branch']} cannot be shown", outcome.error)
        outcome.value, outcome.error = call["res"], None


def experiment_read(call: Call) -> Steps:
    """Around ``_collect_complete_experiment``: an unreadable experiment costs its own rows."""
    outcome = yield
    if isinstance(outcome.error, Exception):
        failures.note(f"the experiment {call['exp_rev'][:7]} cannot be shown", outcome.error)
        outcome.value, outcome.error = {}, None


def table_rows(call: Call) -> Steps:
    """Around ``_collect_rows``: the state of a partial experiment stands in its first row."""
    yield lambda *args, **kwargs: rows_v2.table_rows(call.original, *args, **kwargs)


def temp_entries(call: Call) -> Steps:
    """Around ``TempDirQueue.iter_active`` while a table is collected."""
    if not _open:
        yield
        return
    queue, table = call["self"], _open[-1]
    yield lambda *_, **__: table.running_entries(queue, queue.proc)


def task_entries(call: Call) -> Steps:
    """Around ``LocalCeleryQueue.iter_active`` while a table is collected."""
    if not _open:
        yield
        return
    queue, table = call["self"], _open[-1]
    yield lambda *_, **__: (e for e in call.original(queue) if table.is_running(queue, e))


def running_read(call: Call) -> Steps:
    """Around the reader of one running experiment: a damaged info file costs its own row."""
    outcome = yield
    if isinstance(outcome.error, Exception):
        failures.note(f"the run {call['rev'][:7]} cannot be shown", outcome.error)
        outcome.value, outcome.error = {}, None
