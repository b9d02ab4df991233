"""Commands: ``python -m dvc_ckpt_recover ...`` and what ``dvc exp`` gets in addition.

Failure rule: an unknown command, or one that this copy of the package lacks, is exit code 2.
"""

from __future__ import annotations

import importlib
import sys

COMMANDS = {
    "status": ("dvc_ckpt_recover.cli.status", "facts of this process: versions, hook points, failures"),
    "doctor": ("dvc_ckpt_recover.cli.doctor", "start real processes and say which are hooked"),
    "checkpoint": ("dvc_ckpt_recover.trainer.command", "make a checkpoint, for trainers not in Python"),
    "selftest": ("dvc_ckpt_recover.cli.selftest", "kill a real run in a scratch project and recover it"),
}
"""Name -> the module whose ``main(arguments)`` it is, and a line of help."""


def _usage() -> str:
    lines = ["usage: python -m dvc_ckpt_recover COMMAND [--help]", ""]
    return "\n".join(lines + [f"  {name:<11} {text}" for name, (_, text) in COMMANDS.items()])


def main(argv: list[str]) -> int:
    """Run one command and return its exit code.

    Args:
        argv: The command and its arguments.
    """
    name = argv[0] if argv else ""
    if name in ("-h", "--help"):
        print(_usage())
        return 0
    if name not in COMMANDS:
        sys.stderr.write(f"{_usage()}\n")
        return 2
    module = COMMANDS[name][0]
    try:
        command = importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name != module:
            raise
        sys.stderr.write(f"this copy of dvc_ckpt_recover has no command {name!r}\n")
        return 2
    code: int = command.main(argv[1:])
    return code
