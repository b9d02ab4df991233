"""Handlers for ``dvc exp remove`` and ``dvc queue remove``: rows of ours go as DVC's do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.dvc_api import tasks
from dvc_ckpt_recover.dvc_api.project import place_of
from dvc_ckpt_recover.reporting.facts import Facts
from dvc_ckpt_recover.reporting.forget import by_name, failed_runs, forget, held_by

if TYPE_CHECKING:
    from dvc_ckpt_recover.patching import Call, Steps
    from dvc_ckpt_recover.reporting.facts import Run


def exp_remove(call: Call) -> Steps:
    """Around ``dvc exp remove``: failed runs in temp dirs too, and what a removed run left."""
    repo = call["repo"]
    if call["git_remote"] or call.get("keep"):
        yield
        return
    facts = Facts(*place_of(repo))
    names = tasks.as_list(call["exp_names"])
    mine = by_name(failed_runs(facts), names)
    before = facts.experiments
    outcome = yield tasks.without_names(call, "exp_names", list(mine))
    if outcome.error is not None:
        return
    after = Facts(*place_of(repo)).experiments
    gone = [exp for ref, exp in before.items() if ref not in after]
    tasks.remove(repo, {stash_rev for exp in gone for stash_rev in exp.tasks})
    forget(facts, held_by(facts, gone))
    failed = [run for runs in mine.values() for run in runs] or _chosen(call, facts)
    outcome.value = _joined(outcome.value, forget(facts, failed))


def _chosen(call: Call, facts: Facts) -> list[Run]:
    """Return the failed runs that ``--all-commits`` or ``--rev`` means."""
    if call["exp_names"]:
        return []
    if call["all_commits"]:
        return failed_runs(facts)
    if not call["rev"]:
        return []
    baselines = tasks.baselines(call["repo"], tasks.as_list(call["rev"]), call["num"])
    return [run for run in failed_runs(facts) if run.baseline in baselines]


def queue_remove(call: Call) -> Steps:
    """Around ``dvc queue remove NAME``."""
    facts = Facts(*place_of(call["self"].repo))
    mine = by_name(failed_runs(facts), tasks.as_list(call["revs"]))
    outcome = yield tasks.without_names(call, "revs", list(mine))
    if outcome.error is None:
        runs = [run for found in mine.values() for run in found]
        outcome.value = _joined(outcome.value, forget(facts, runs))


def queue_clear(call: Call) -> Steps:
    """Around ``dvc queue remove --failed`` and the like."""
    outcome = yield
    if outcome.error is None and call["failed"]:
        facts = Facts(*place_of(call["self"].repo))
        outcome.value = _joined(outcome.value, forget(facts, failed_runs(facts)))


def _joined(removed: Any, more: list[str]) -> list[str]:  # noqa: ANN401
    return list(dict.fromkeys([*removed, *more]))
