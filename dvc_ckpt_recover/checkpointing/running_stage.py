"""What is known of the stage that runs, on the disk, for whoever ends the run after dvc died.

Failure rule: a file that cannot be written, is missing or cannot be understood means that nothing
is known; the run goes on all the same.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover import failures
from dvc_ckpt_recover.durable import make_private_dir, read_json, remove_file, write_json
from dvc_ckpt_recover.dvc_api.stages import OutView, PipelineView, StageKey, StageView
from dvc_ckpt_recover.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dvc_ckpt_recover.runs import Places

_FORMAT = 1


def _path(places: Places, run_id: str) -> str:
    return os.path.join(places.staging(run_id), "stage.json")


def remember(places: Places, run_id: str, view: PipelineView, finished: Iterable[StageKey]) -> None:
    """Write down which stage of a run starts now, and which have finished."""
    value = {"format": _FORMAT, "view": asdict(view), "finished": sorted(finished)}
    try:
        places.make()
        make_private_dir(places.staging(run_id))
        write_json(_path(places, run_id), value)
    except OSError as exc:
        failures.note(f"nothing can be salvaged if {run_id} dies", exc)


def forget(places: Places, run_id: str) -> None:
    """Take back what was written down: DVC has saved the stage."""
    remove_file(_path(places, run_id))


def recall(places: Places, run_id: str) -> tuple[PipelineView, set[StageKey]] | None:
    """Return the stage that ran last and was not saved, and those that had finished before."""
    try:
        value = read_json(_path(places, run_id))
        if value.get("format") != _FORMAT:
            return None
        finished = {(str(path), str(name)) for path, name in value["finished"]}
        return _pipeline(value["view"]), finished
    except FileNotFoundError:
        return None
    except (OSError, DamagedError, KeyError, TypeError, ValueError) as exc:
        failures.note(f"the stage that ran in {run_id} is unknown", exc)
        return None


def _pipeline(value: dict[str, Any]) -> PipelineView:
    return PipelineView(
        git_root=value["git_root"],
        stage=_stage(value["stage"]),
        related=tuple(_stage(one) for one in value["related"]),
        top_level=tuple(value["top_level"]),
    )


def _stage(value: dict[str, Any]) -> StageView:
    outs = tuple(OutView(**out) for out in value["outs"])
    return StageView(**{**value, "key": tuple(value["key"]), "outs": outs})
