"""Metrics that a commit lacks, because its stages had not started: no error of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any


def is_missing(measured: Any) -> bool:  # noqa: ANN401
    """Return whether a file's metrics are an error because there is no such file."""
    return isinstance(measured, dict) and isinstance(measured.get("error"), FileNotFoundError)


def without_missing(exp: Any) -> Any:  # noqa: ANN401
    """Return a ``SerializableExp`` without the metrics files that are not there."""
    found = {path: item for path, item in exp.metrics.items() if not is_missing(item)}
    return exp if len(found) == len(exp.metrics) else replace(exp, metrics=found)
