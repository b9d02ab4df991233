"""Commands: ``python -m dvc_ckpt_recover ...`` and what ``dvc exp`` gets in addition.

Failure rule: an unknown command, or one that this copy of the package lacks, is exit code 2.
"""

from __future__ import annotations

import importlib
import sys

_CLI = "dvc_ckpt_recover.cli"

COMMANDS = {
    "status": (f"{_CLI}.status", "tell the facts of this process: versions, hook points"),
    "doctor": (f"{_CLI}.doctor", "start real processes and say which are hooked"),
    "checkpoint": ("dvc_ckpt_recover.trainer.command", "make a checkpoint, from any language"),
    "selftest": (f"{_CLI}.selftest", "kill a real run in a scratch project, recover it"),
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
        sys.stdout.write(f"{_usage()}\n")
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
