"""``dvc exp recover``: what is there, what would be done, what was done.

Failure rule: exit 1 when a run could not be recovered, its reason on one line; the rest goes on.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.activation.recovering import (
    RECOVERABLE,
    Recovered,
    Recovery,
    line_of,
    name_of,
)
from dvc_ckpt_recover.dvc_api.commands import with_progress, write
from dvc_ckpt_recover.dvc_api.project import write_line
from dvc_ckpt_recover.errors import DamagedError, NotFoundError, RefusedError
from dvc_ckpt_recover.git import checkpoints_of
from dvc_ckpt_recover.runs import Mode
from dvc_ckpt_recover.runs.size import disk_usage, humanize
from dvc_ckpt_recover.runs.survey import RunFacts, RunState

if TYPE_CHECKING:
    import argparse

_PLANS = {
    RunState.ALIVE: "nothing, it runs",
    RunState.ALONE: "nothing, its trainer runs on without dvc",
    RunState.ELSEWHERE: "nothing without --force, it belongs to another host",
    RunState.FAILED: "nothing, it is listed as Failed until it is removed",
    RunState.UNREADABLE: "nothing",
    RunState.EMPTY: "remove it, it holds nothing",
}
_HEADS = ("Name", "State", "Since", "Size", "Checkpoints", "Would be done")


def run(repo: Any, args: argparse.Namespace) -> int:  # noqa: ANN401
    """List or recover the runs of ``repo``; return the exit code.

    Raises:
        NotFoundError: There is no run of a name that was given.
        RefusedError: Names and ``--all`` together.
    """
    if args.check:
        from dvc_ckpt_recover.cli import check

        return check.run(repo, args)
    if args.name and args.all:
        raise RefusedError("--all and names exclude each other")
    recovery = Recovery(repo)
    chosen = _choose(recovery.runs(), args)
    if args.list or args.dry_run:
        _show([_row(recovery, facts) for facts in chosen], as_json=args.json)
        return 0
    done = [
        recovery.recover(facts, force=args.force) for facts in with_progress(chosen, "Recovering")
    ]
    recovery.tidy()
    return _report(done, as_json=args.json)


def _choose(runs: list[RunFacts], args: argparse.Namespace) -> list[RunFacts]:
    if not args.name:
        return runs if args.list else [run for run in runs if _is_due(run, force=args.force)]
    chosen = []
    for name in dict.fromkeys(args.name):
        named = [facts for facts in runs if name in _names(facts)]
        if not named:
            raise NotFoundError(f"there is no run {name!r}", todo="see: dvc exp recover --list")
        chosen += named
    return chosen


def _is_due(facts: RunFacts, *, force: bool) -> bool:
    return facts.state in RECOVERABLE or (force and facts.state == RunState.ELSEWHERE)


def _names(facts: RunFacts) -> set[str | None]:
    record = facts.record
    told = (record.name, record.temp_dir, record.stash_rev) if record else ()
    return {facts.run_id, facts.leftover, *told}


def _row(recovery: Recovery, facts: RunFacts) -> dict[str, Any]:
    record = facts.record
    in_temp = record is not None and record.mode != Mode.WORKSPACE
    folder = facts.leftover or (record.temp_dir if record and in_temp else "")
    count, error = 0, facts.error
    try:
        if facts.live and record:
            count = len(checkpoints_of(recovery.store, facts.live, record.parent))
    except DamagedError as exc:
        error = str(exc)
    return {
        "name": name_of(facts),
        "run_id": facts.run_id,
        "state": facts.state,
        "since": record.started if record else None,
        "size": disk_usage(folder) if folder else 0,
        "checkpoints": count,
        "temp_dir": folder or None,
        "plan": _plan(facts, count),
        "error": error,
    }


def _plan(facts: RunFacts, count: int) -> str:
    if facts.state != RunState.ORPHAN:
        return _PLANS[facts.state]
    if facts.record and facts.record.reproduced:
        return "publish as finished, remove its temp dir"
    if facts.leftover:
        return "publish what plain DVC left in it, remove it"
    if count:
        return "publish as Partial, remove its temp dir"
    return "note as Failed, remove its temp dir"


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        write(json.dumps({"runs": rows}, indent=1))
        return
    if not rows:
        write("There is nothing to recover.")
        return
    table = [_HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(_HEADS))]
    for cells in table:
        write("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip())


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["since"])) if row["since"] else "?"
    plan = f"{row['plan']} ({row['error']})" if row["error"] else row["plan"]
    size = humanize(row["size"])
    return (row["name"], row["state"], since, size, str(row["checkpoints"]), plan)


def _report(done: list[Recovered], *, as_json: bool) -> int:
    failed = [one for one in done if one.error]
    if as_json:
        total = sum(one.freed for one in done)
        write(json.dumps({"runs": [_told(one) for one in done], "freed": total}, indent=1))
        return 1 if failed else 0
    for one in done:
        if one.error:
            write_line(f"ERROR: '{one.name}' was not recovered: {one.error}")
        else:
            write(line_of(one))
    if not done:
        write("There is nothing to recover.")
    elif len(done) > 1:
        freed = humanize(sum(one.freed for one in done))
        write(f"{len(done) - len(failed)} recovered, {len(failed)} not, {freed} freed.")
    return 1 if failed else 0


def _told(one: Recovered) -> dict[str, Any]:
    ending = one.ending
    told: dict[str, Any] = {"name": one.name, "error": one.error, "freed": one.freed}
    told["removed"] = one.removed
    if ending is not None:
        fields = ("ended", "ref", "sha", "checkpoints", "cause", "wanted")
        told.update({field: getattr(ending, field) for field in fields})
    return told
