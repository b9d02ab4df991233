"""``python -m dvc_ckpt_recover checkpoint``: for trainers in other languages."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dvc_ckpt_recover.trainer.client import request_checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

NOT_TAKEN = 1


def main(argv: Sequence[str]) -> int:
    """Make a checkpoint of the running stage and say by the exit code whether it is safe.

    Args:
        argv: The arguments after ``checkpoint``.

    Returns:
        0 when the checkpoint is ready (with ``--no-wait``: copied aside), else 1, with one line on
        stderr that says why.
    """
    parser = argparse.ArgumentParser(
        prog="python -m dvc_ckpt_recover checkpoint",
        description="Make a checkpoint of the outputs of the running stage, which must be whole "
        "now. Blocks until it is safe; the exit code says whether it is.",
    )
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="return once the bytes are copied aside: safe against the death of any process, not "
        "yet against a power cut or a full cache",
    )
    options = parser.parse_args(argv)
    answer = request_checkpoint(wait=not options.no_wait)
    if answer.ok:
        return 0
    reason = answer.reason or "no checkpoint was taken: this is not a stage of `dvc exp run`"
    sys.stderr.write(f"dvc_ckpt_recover: {reason}\n")
    return NOT_TAKEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
