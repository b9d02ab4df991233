"""The record of a run: written at its start, changed when it ends, removed when all is published.

Failure rule: a damaged record is a DamagedError that names its file; others are still read.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.durable import read_json, remove_file, write_json
from dvc_ckpt_recover.errors import DamagedError
from dvc_ckpt_recover.runs.process import ProcessId

if TYPE_CHECKING:
    from dvc_ckpt_recover.runs.places import Places

FORMAT = 1


class Mode:
    """How a run was started."""

    TEMP = "temp"
    QUEUE = "queue"
    WORKSPACE = "workspace"


class Ended:
    """How a run ended; the empty text while it runs."""

    NOT = ""
    PARTIAL = "partial"
    FAILED = "failed"
    SUCCESS = "success"


@dataclass(frozen=True)
class RunRecord:
    """What is known of one run.

    Attributes:
        run_id: Its id, see ``run_id_of``.
        name: The experiment's name, or None when DVC makes one up at its end (2.x).
        baseline: Commit that the experiment belongs to.
        parent: Commit that its first checkpoint follows: baseline, or the branch's tip.
        branch: Ref of the experiment that it goes on, or None.
        stash_rev: Commit with its code and params; also DVC's name of the task.
        main_root: Work tree of the main Git repository.
        temp_dir: Where it runs.
        dvc_dir: The project's ``.dvc``, relative to the Git root.
        mode: See ``Mode``.
        started: Seconds since 1970.
        process: The dvc process that runs it, or None when unknown.
        ended: See ``Ended``.
        cause: Why it did not finish, one line.
        reproduced: Whether DVC went through all stages and made its experiment.
        unsaved: Stage whose command ended in good order but that DVC could not save, or None.
        infofile: DVC's own record of the run, or None.
        checkpoints: How many it kept.
        skipped: Checkpoints that could not be taken, one line each.
    """

    run_id: str
    name: str | None
    baseline: str
    parent: str
    branch: str | None
    stash_rev: str
    main_root: str
    temp_dir: str
    dvc_dir: str
    mode: str
    started: float = field(default_factory=time.time)
    process: ProcessId | None = None
    ended: str = Ended.NOT
    cause: str = ""
    reproduced: bool = False
    unsaved: str | None = None
    infofile: str | None = None
    checkpoints: int = 0
    skipped: tuple[str, ...] = ()

    def save(self, places: Places) -> None:
        """Write the record. Raises OSError, the old record stays then."""
        places.make()
        write_json(places.record(self.run_id), {"format": FORMAT, **asdict(self)})

    def changed(self, **fields: Any) -> RunRecord:  # noqa: ANN401
        """Return the record with some fields changed; nothing is written."""
        return replace(self, **fields)

    def remove(self, places: Places) -> None:
        """Remove the record, and the disk space that was kept beside it."""
        remove_file(places.reserve(self.run_id))
        remove_file(places.record(self.run_id))

    @classmethod
    def parse(cls, value: dict[str, Any], path: str) -> RunRecord:
        """Return the record in ``value``, read from ``path``. Raises DamagedError."""
        if value.get("format") != FORMAT:
            msg = f"{path} has the format {value.get('format')!r}, not {FORMAT}"
            raise DamagedError(msg)
        known = {name: value[name] for name in cls.__dataclass_fields__ if name in value}
        known["process"] = ProcessId.parse(known.get("process"))
        known["skipped"] = tuple(known.get("skipped") or ())
        try:
            record = cls(**known)
        except TypeError as exc:
            msg = f"{path} is not a whole record ({exc})"
            raise DamagedError(msg) from exc
        texts = (record.run_id, record.baseline, record.stash_rev, record.temp_dir, record.dvc_dir)
        if not all(isinstance(text, str) and text for text in texts):
            msg = f"{path} is not a whole record"
            raise DamagedError(msg)
        return record


def load_record(places: Places, run_id: str) -> RunRecord:
    """Return the record of a run.

    Raises:
        FileNotFoundError: There is none.
        DamagedError: It cannot be understood.
    """
    path = places.record(run_id)
    record = RunRecord.parse(read_json(path), path)
    if record.run_id != run_id:
        msg = f"{path} is the record of another run, {record.run_id}"
        raise DamagedError(msg)
    return record


def load_all(places: Places) -> tuple[list[RunRecord], list[DamagedError]]:
    """Return all records of a project that can be read, and an error for each other one."""
    records, damaged = [], []
    for run_id in places.runs():
        try:
            records.append(load_record(places, run_id))
        except FileNotFoundError:
            continue
        except (DamagedError, OSError) as exc:
            error = exc if isinstance(exc, DamagedError) else DamagedError(str(exc))
            damaged.append(error)
    return records, damaged


def find_record(places: Places, temp_dir: str) -> RunRecord | None:
    """Return the record of the run in ``temp_dir``, or None. Raises DamagedError."""
    prefix = f"{os.path.basename(temp_dir)}-"
    for run_id in places.runs():
        if run_id.startswith(prefix):
            record = load_record(places, run_id)
            if os.path.abspath(record.temp_dir) == os.path.abspath(temp_dir):
                return record
    return None
