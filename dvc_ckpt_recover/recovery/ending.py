"""What the pipeline found and did, for messages and the clean-up."""

from __future__ import annotations

from dataclasses import dataclass

from dvc_ckpt_recover.runs import Ended


@dataclass(frozen=True)
class Ending:
    """How one run ended.

    Attributes:
        name: Name of the experiment, as it is in the main repository if it is there.
        ended: See ``Ended``.
        ref: Ref that was published or proven, or None when nothing was kept.
        sha: What it points to.
        checkpoints: How many checkpoints it has.
        cause: Why the run did not finish; empty after success.
        wanted: The name that was asked for and is taken, or None.
        carried: Whether DVC had lost the experiment and it was carried over.
        kept_dir: The temp dir when it must stay, else None.
        why_kept: Why it must stay.
        skipped: Checkpoints that could not be taken, one line each.
        salvaged: Whether the newest checkpoint was taken after the trainer died.
        left_out: What of the dying trainer's files is not in it, one line each.
    """

    name: str
    ended: str
    ref: str | None = None
    sha: str | None = None
    checkpoints: int = 0
    cause: str = ""
    wanted: str | None = None
    carried: bool = False
    kept_dir: str | None = None
    why_kept: str = ""
    skipped: tuple[str, ...] = ()
    salvaged: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def is_safe(self) -> bool:
        """Return whether the temp dir may go."""
        return self.kept_dir is None

    @property
    def is_success(self) -> bool:
        """Return whether the run finished."""
        return self.ended == Ended.SUCCESS
