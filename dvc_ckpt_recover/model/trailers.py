"""Commit messages of checkpoints: status travels with the commit, as Git trailers."""

from __future__ import annotations

from dataclasses import dataclass

from dvc_ckpt_recover.model.cause import Cause

_STATUS = "Experiment-Status"
_CAUSE = "Experiment-Cause"
_COUNT = "Experiment-Checkpoints"
_TASK = "Experiment-Task"
_NUMBER = "Checkpoint"
_STAGE = "Checkpoint-Stage"
_STATE = "Checkpoint-State"
_TORN = "Checkpoint-Torn"
READY = "ready"
UNPROVEN = "unproven"


def parse(message: str) -> dict[str, str]:
    """Return the trailers of a commit message: the ``Key: value`` lines of its last paragraph."""
    last = message.rstrip().rpartition("\n\n")[2]
    pairs = (line.partition(": ") for line in last.splitlines())
    return {key: value.strip() for key, sep, value in pairs if sep and " " not in key}


def experiment_in(message: str) -> str | None:
    """Return the experiment's name in the subject of a commit message of ours, or None."""
    subject = message.split("\n", 1)[0]
    for start in ("partial experiment ", "checkpoint "):
        if subject.startswith(start):
            return subject.rpartition("experiment ")[2] if "experiment " in subject else None
    return None


def _message(subject: str, trailers: dict[str, str]) -> str:
    return f"{subject}\n\n" + "".join(f"{key}: {value}\n" for key, value in trailers.items())


@dataclass(frozen=True)
class CheckpointNote:
    """What a checkpoint commit says of itself.

    Attributes:
        number: Place in the run, from 1.
        stage: Address of the stage whose state it holds.
        state: ``ready``, or ``unproven`` when it was taken after the trainer died.
        torn: Outputs of an unproven one that are not in it, since they were torn.
    """

    number: int
    stage: str
    state: str = READY
    torn: tuple[str, ...] = ()

    def message(self, name: str | None) -> str:
        """Return the commit message of this checkpoint of the experiment ``name``."""
        subject = f"checkpoint {self.number}" + (f" of experiment {name}" if name else "")
        trailers = {_NUMBER: str(self.number), _STAGE: self.stage, _STATE: self.state}
        if self.torn:
            trailers[_TORN] = ", ".join(self.torn)
        return _message(subject, trailers)

    @classmethod
    def read(cls, message: str) -> CheckpointNote | None:
        """Return the note in a commit message, or None when the commit is no checkpoint."""
        found = parse(message)
        if not found.get(_NUMBER, "").isdigit():
            return None
        torn = tuple(filter(None, found.get(_TORN, "").split(", ")))
        return cls(int(found[_NUMBER]), found.get(_STAGE, ""), found.get(_STATE, READY), torn)


@dataclass(frozen=True)
class ClosingNote:
    """What the closing commit of a partial experiment says.

    Attributes:
        cause: Why the run ended.
        checkpoints: How many checkpoints the experiment has.
        task: DVC's id of the queue task that ended here (its stash commit), or None.
    """

    cause: Cause
    checkpoints: int
    task: str | None = None

    def message(self, name: str | None) -> str:
        """Return the message of the closing commit of the experiment ``name``."""
        subject = "partial experiment" + (f" {name}" if name else "")
        trailers = {_STATUS: "partial", _CAUSE: str(self.cause), _COUNT: str(self.checkpoints)}
        if self.task:
            trailers[_TASK] = self.task
        return _message(subject, trailers)

    @classmethod
    def read(cls, message: str) -> ClosingNote | None:
        """Return the note in a commit message, or None when the commit closes nothing."""
        found = parse(message)
        if found.get(_STATUS) != "partial":
            return None
        count = found.get(_COUNT, "")
        return cls(
            Cause.parse(found.get(_CAUSE, "unknown")),
            int(count) if count.isdigit() else 0,
            found.get(_TASK),
        )
