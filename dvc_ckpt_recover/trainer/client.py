"""Ask for a checkpoint from inside the training.

Failure rule: nothing here raises or blocks for ever; what goes wrong is one warning.
"""

from __future__ import annotations

import json
import os
import time
import warnings

_ADDRESS = "DVC_CKPT_RECOVER_ADDRESS"
_DVC_PID = "DVC_CKPT_RECOVER_PID"
_NATIVE = "DVC_CHECKPOINT"
_MAX_ANSWER = 64 * 1024


def make_checkpoint(wait: bool = False) -> bool:  # noqa: FBT001, FBT002
    """Make a checkpoint of the outputs of the running stage, which must be whole now.

    Args:
        wait: Return only when the checkpoint is ready: stored, synced to the disk, and in the
            main Git repository. Otherwise return once the bytes are copied aside; from then on the
            death of any process loses nothing.

    Returns:
        Whether a checkpoint was taken. False outside a DVC experiment, and when it was skipped;
        a skipped one is also a ``RuntimeWarning``. It never raises.
    """
    try:
        if _ADDRESS in os.environ:
            return _ask(os.environ[_ADDRESS], {"op": "checkpoint", "wait": bool(wait)})
        if _NATIVE in os.environ:
            return _signal_native()
    except Exception as exc:  # noqa: BLE001
        _warn(f"no checkpoint was taken ({exc})")
    return False


def _warn(text: str) -> None:
    try:
        warnings.warn(f"dvc_ckpt_recover: {text}", RuntimeWarning, stacklevel=4)
    except RuntimeWarning:  # -W error must not stop the training
        print(f"dvc_ckpt_recover: {text}", flush=True)  # noqa: T201


def _ask(address: str, request: dict[str, object]) -> bool:
    from multiprocessing.connection import Client

    request["stage"] = os.environ.get("DVC_STAGE", "")
    try:
        with Client(address) as server:
            server.send_bytes(json.dumps(request).encode("utf-8"))
            answer = json.loads(server.recv_bytes(_MAX_ANSWER).decode("utf-8"))
    except (OSError, EOFError):
        _warn("dvc is gone, so no checkpoint was taken; the training goes on")
        return False
    if not answer.get("ok"):
        _warn(f"this checkpoint was skipped: {answer.get('reason')}")
    return bool(answer.get("ok"))


def _signal_native() -> bool:
    """Have DVC 2 make its checkpoint: a signal file that DVC removes once it is done."""
    path = os.path.join(os.environ["DVC_ROOT"], ".dvc", "tmp", _NATIVE)
    with open(path, "w", encoding="utf-8") as file:
        file.flush()
        os.fsync(file.fileno())
    dvc = int(os.environ.get(_DVC_PID, "0"))
    while os.path.exists(path):
        if dvc and not _is_alive(dvc):
            _warn("dvc is gone, so no checkpoint was taken; the training goes on")
            return False
        time.sleep(0.05)
    return True


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
