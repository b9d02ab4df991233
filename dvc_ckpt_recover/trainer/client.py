"""Ask for a checkpoint from inside the training.

Failure rule: nothing here raises or blocks for ever; what goes wrong is one warning.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from dataclasses import dataclass
from typing import Any

ADDRESS = "DVC_CKPT_RECOVER_ADDRESS"
_DVC_PID = "DVC_CKPT_RECOVER_PID"
_NATIVE = "DVC_CHECKPOINT"
_MAX_ANSWER = 64 * 1024


@dataclass(frozen=True)
class Answer:
    """What became of a request.

    Attributes:
        ok: Whether a checkpoint was taken.
        reason: Why not; empty when there is nothing to say.
        told: Whether dvc told the user already.
        again_in: Seconds until an automatic request makes sense again.
        again_after: Number of the automatic call from which on it makes sense.
    """

    ok: bool
    reason: str = ""
    told: bool = False
    again_in: float = 0.0
    again_after: int = 0


def request_checkpoint(*, wait: bool = False, **more: Any) -> Answer:  # noqa: ANN401
    """Have dvc make a checkpoint, and return its answer; it never raises.

    Args:
        wait: Whether to wait until the checkpoint is ready.
        more: Further fields of the request.
    """
    try:
        if ADDRESS in os.environ:
            return _ask(os.environ[ADDRESS], {"op": "checkpoint", "wait": bool(wait), **more})
        if _NATIVE in os.environ:
            return _signal_native()
    except Exception as exc:  # noqa: BLE001
        return Answer(ok=False, reason=f"no checkpoint was taken ({exc})")
    return Answer(ok=False)


def make_checkpoint(wait: bool = False) -> bool:  # noqa: FBT001, FBT002
    """Make a checkpoint of the outputs of the running stage, which must be whole now.

    Args:
        wait: Return only when the checkpoint is ready: stored, synced to the disk, and in the
            main Git repository. Otherwise return once the bytes are copied aside; from then on the
            death of any process loses nothing.

    Returns:
        Whether a checkpoint was taken. False outside a DVC experiment, and when it was skipped,
        which dvc says in one line. When dvc is gone, it is False and a ``RuntimeWarning``, at once.
        It never raises.
    """
    answer = request_checkpoint(wait=wait)
    if answer.reason and not answer.told:
        warn(answer.reason)
    return answer.ok


def warn(text: str) -> None:
    """Warn once; it never raises, whatever ``-W`` says."""
    try:
        warnings.warn(f"dvc_ckpt_recover: {text}", RuntimeWarning, stacklevel=3)
    except RuntimeWarning:  # -W error must not stop the training
        print(f"dvc_ckpt_recover: {text}", flush=True)  # noqa: T201


def _ask(address: str, request: dict[str, object]) -> Answer:
    from multiprocessing.connection import Client

    request["stage"] = os.environ.get("DVC_STAGE", "")
    try:
        with Client(address) as server:
            server.send_bytes(json.dumps(request).encode("utf-8"))
            answer = json.loads(server.recv_bytes(_MAX_ANSWER).decode("utf-8"))
    except (OSError, EOFError):
        return _gone()
    reason = "" if answer.get("ok") else str(answer.get("reason") or "")
    return Answer(
        ok=bool(answer.get("ok")),
        reason=reason and f"this checkpoint was skipped: {reason}",
        told=bool(answer.get("told")),
        again_in=float(answer.get("again_in") or 0),
        again_after=int(answer.get("again_after") or 0),
    )


def _gone() -> Answer:
    return Answer(
        ok=False,
        reason="dvc is gone, so no checkpoint was taken; the training goes on",
        again_in=1e9,
    )


def _signal_native() -> Answer:
    """Have DVC 2 make its checkpoint: a signal file that DVC removes once it is done."""
    path = os.path.join(os.environ["DVC_ROOT"], ".dvc", "tmp", _NATIVE)
    with open(path, "w", encoding="utf-8") as file:
        file.flush()
        os.fsync(file.fileno())
    dvc = int(os.environ.get(_DVC_PID, "0"))
    while os.path.exists(path):
        if dvc and not _is_alive(dvc):
            return _gone()
        time.sleep(0.05)
    return Answer(ok=True)


def _is_alive(pid: int) -> bool:
    if os.name == "nt":  # there, signal 0 would end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
