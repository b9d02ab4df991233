"""Read an executor and DVC's own record of a run, the info file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from dvc_ckpt_recover.durable import read_json, write_json
from dvc_ckpt_recover.errors import DamagedError

if TYPE_CHECKING:
    from dvc_ckpt_recover.patching import Call

_EXPS = "refs/exps/"
EXEC_BRANCH = "refs/exps/exec/EXEC_BRANCH"
EXEC_CHECKPOINT = "refs/exps/exec/EXEC_CHECKPOINT"
EXEC_MERGE = "refs/exps/exec/EXEC_MERGE"

# TaskStatus of dvc.repo.experiments.executor.base, the same numbers in all versions
RUNNING, SUCCESS, FAILED, CANCELED, FINISHED = 2, 3, 4, 5, 6


@dataclass(frozen=True)
class InfoFile:
    """What DVC wrote of a run.

    Attributes:
        status: DVC's TaskStatus; 6 is written over anything below 4 at the clean-up.
        result_ref: Experiment ref that a finished run made, or None.
        result_hash: What it points to, or None.
        root_dir: The temp dir, or None in a damaged file.
    """

    status: int
    result_ref: str | None
    result_hash: str | None = None
    root_dir: str | None = None

    @property
    def has_result(self) -> bool:
        """Return whether DVC went through and made its experiment."""
        return bool(self.result_ref and self.result_hash) and self.status in (SUCCESS, FINISHED)


def read_info(path: str | None) -> InfoFile | None:
    """Return DVC's info file, or None when it is missing or cannot be understood."""
    if path is None:
        return None
    try:
        value = read_json(path)
        found = {key: value.get(key) for key in ("result_ref", "result_hash", "root_dir")}
        return InfoFile(int(value["status"]), **found)
    except (OSError, DamagedError, KeyError, TypeError, ValueError):
        return None


def note_end(path: str | None, *, success: bool) -> None:
    """Have DVC see that a run whose dvc was killed has ended, as its own clean-up does.

    Args:
        path: Its info file, or None; a file that cannot be understood is left alone.
        success: Whether its result stands.
    """
    info = read_info(path)
    if path is None or info is None or info.status in (FAILED, CANCELED, FINISHED):
        return
    value = read_json(path)
    value["status"] = FINISHED if success else FAILED
    if not success:
        value.update(result_hash=None, result_ref=None)
    write_json(path, value)


def set_result_ref(path: str | None, ref: str) -> None:
    """Write into DVC's info file that the run's experiment is ``ref``, its name being taken."""
    info = read_info(path)
    if path is not None and info is not None:
        write_json(path, {**read_json(path), "result_ref": ref})


def mark_failed(info: Any, path: str | None) -> None:  # noqa: ANN401
    """Have DVC believe that a run failed: in its object and in its info file.

    Args:
        info: ``ExecutorInfo`` of the run.
        path: Its info file, or None.
    """
    info.status = type(info.status)(FAILED)
    info.result_hash = info.result_ref = None
    if path is not None and os.path.exists(path):
        value = read_json(path)
        value.update(status=FAILED, result_hash=None, result_ref=None)
        write_json(path, value)


def stage_failed(error: BaseException, stage: str) -> Exception:
    """Return what DVC raises when the command of ``stage`` failed with ``error``.

    Not ``CheckpointKilledError``: 2.58 goes on from it into an unbound variable.
    """
    from dvc.exceptions import ReproductionError
    from dvc.stage.exceptions import StageCmdFailedError

    plain = StageCmdFailedError.__new__(StageCmdFailedError, *error.args)
    Exception.__init__(plain, *error.args)
    plain.__cause__ = error.__cause__
    failed: Exception = ReproductionError(stage)
    failed.__cause__ = plain
    return failed


def stage_interrupted(stage: Any, number: int) -> Exception:  # noqa: ANN401
    """Return what DVC raises when the command of ``stage`` ended by the signal ``number``."""
    from dvc.stage.exceptions import StageCmdFailedError

    error: Exception = StageCmdFailedError(stage.cmd, -number)
    return error


def is_experiment_ref(ref: str) -> bool:
    """Return whether a ref names an experiment, rather than a stash or DVC's own state."""
    if not ref.startswith(_EXPS):
        return False
    return re.match(r"[0-9a-f]{2}/[0-9a-f]{38}/.", ref[len(_EXPS) :]) is not None


def experiment_ref(baseline: str, name: str) -> str:
    """Return the ref of the experiment ``name`` of the commit ``baseline``."""
    return f"{_EXPS}{baseline[:2]}/{baseline[2:]}/{name}"


def experiment_name(ref: str) -> str:
    """Return the name in an experiment ref."""
    return ref[len(_EXPS) :].split("/", 2)[2]


def baseline_of(ref: str) -> str:
    """Return the baseline commit in an experiment ref."""
    first, rest = ref[len(_EXPS) :].split("/")[:2]
    return first + rest


@dataclass(frozen=True)
class Setup:
    """What DVC is about to set up: see ``RunRecord`` for the fields."""

    root_dir: str
    dvc_dir: str
    name: str | None
    baseline: str
    head: str
    branch: str | None
    stash_rev: str
    main_root: str
    in_queue: bool


def setup_of(call: Call) -> Setup:
    """Read the arguments of ``TempDirExecutor.init_git``."""
    executor, entry = call["self"], call["entry"]
    return Setup(
        root_dir=os.path.abspath(executor.root_dir),
        dvc_dir=str(executor.dvc_dir),
        name=executor.name,
        baseline=str(entry.baseline_rev),
        head=str(entry.head_rev),
        branch=call["branch"],
        stash_rev=str(call["stash_rev"]),
        main_root=os.path.abspath(str(call["scm"].root_dir)),
        in_queue=executor.location == "dvc-task",
    )


def clean_up_but_keep(executor: Any) -> Callable[..., Any]:  # noqa: ANN401
    """Return DVC's clean-up of ``executor`` without the removal of its temp dir.

    ``TempDirExecutor.cleanup`` is its parent's plus the removal in all versions seen.
    """
    from dvc.repo.experiments.executor.local import TempDirExecutor

    def cleanup(_self: Any, infofile: str | None = None) -> None:  # noqa: ANN401
        super(TempDirExecutor, executor).cleanup(infofile)

    return cleanup


def main_root_of(repo: Any) -> str | None:  # noqa: ANN401
    """Return the work tree of a project's Git repository, or None without Git."""
    scm = repo.scm
    return None if type(scm).__name__ == "NoSCM" else os.path.abspath(str(scm.root_dir))
