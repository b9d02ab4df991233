"""`dvc exp show --json` as flat rows, alike for DVC 2.31 (a dict) and later (a list)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterator


class Row(TypedDict):
    """One line of the table.

    ``kind`` is workspace, baseline, experiment (the tip) or checkpoint (below a tip);
    ``experiment`` the name of the tip that a checkpoint belongs to, ``name`` the row's own;
    ``state`` what DVC says of the executor (Running, Queued, Failed, Success), or None;
    ``metrics`` and ``params`` are by file.
    """

    kind: str
    rev: str
    name: str | None
    experiment: str | None
    baseline: str | None
    state: str | None
    metrics: dict[str, Any]
    params: dict[str, Any]
    error: str | None


def flatten(shown: Any) -> list[Row]:
    """Return the rows in the order in which they were printed."""
    return list(flatten_dict(shown) if isinstance(shown, dict) else flatten_list(shown))


def flatten_list(shown: list[dict[str, Any]]) -> Iterator[Row]:
    """Yield the rows of DVC 2.58 and 3."""
    for top in shown:
        kind = "workspace" if top["rev"] == "workspace" else "baseline"
        yield make_row(kind, top["rev"], top)
        for branch in top["experiments"] or ():
            tip = branch["revs"][0]
            name = branch.get("name") or tip["name"]
            state = (branch.get("executor") or {}).get("state")
            for entry in branch["revs"]:
                kind = "experiment" if entry is tip else "checkpoint"
                row = make_row(kind, entry["rev"], entry, baseline=top["rev"], experiment=name)
                row["state"] = state.capitalize() if state else None
                yield row


def flatten_dict(shown: dict[str, Any]) -> Iterator[Row]:
    """Yield the rows of DVC 2.31, whose experiments lie flat beside their baseline."""
    for top_rev, entries in shown.items():
        kind = "workspace" if top_rev == "workspace" else "baseline"
        yield make_row(kind, top_rev, entries["baseline"])
        for rev, entry in entries.items():
            if rev == "baseline":
                continue
            tip = (entry.get("data") or {}).get("checkpoint_tip") or rev
            name = (entries.get(tip, entry).get("data") or {}).get("name")
            kind = "experiment" if tip == rev else "checkpoint"
            row = make_row(kind, rev, entry, baseline=top_rev, experiment=name)
            row["state"] = (entry.get("data") or {}).get("status")
            yield row


def make_row(
    kind: str,
    rev: str,
    entry: dict[str, Any],
    *,
    baseline: str | None = None,
    experiment: str | None = None,
) -> Row:
    """Return one entry as a row without state."""
    data = entry.get("data") or {}
    error = entry.get("error")
    return Row(
        kind=kind,
        rev=rev,
        name=entry.get("name") or data.get("name"),
        experiment=experiment,
        baseline=baseline,
        state=None,
        metrics=by_file(data.get("metrics")),
        params=by_file(data.get("params")),
        error=error.get("msg") if isinstance(error, dict) else error,
    )


def by_file(measured: dict[str, Any] | None) -> dict[str, Any]:
    """Return the values by file, None where a file could not be read."""
    return {path: held.get("data") for path, held in (measured or {}).items()}
