"""Run many `dvc` commands in one process: what takes time is DVC's start.

python many.py COMMANDS, a JSON list of argument lists; one that starts with "python" has a
statement to execute instead. Prints a JSON list of [exit code, standard output, standard error].
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# This folder has a queue.py, which is not the one that others import.
sys.path[:] = [path for path in sys.path if path != str(Path(__file__).resolve().parent)]


@contextmanager
def caught(descriptor: int, into: list[str]) -> Iterator[None]:
    """Append to ``into`` what is written to a file descriptor, children included."""
    kept = os.dup(descriptor)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), descriptor)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept, descriptor)
            os.close(kept)
            file.seek(0)
            into.append(file.read().decode("utf-8", "replace"))


def run(command: list[str]) -> list[object]:
    """Run one command."""
    out: list[str] = []
    err: list[str] = []
    with caught(1, out), caught(2, err):
        if command[0] == "python":
            exec(command[1], {})  # noqa: S102 - the test's own statement
            code: object = 0
        else:
            from dvc.cli import main

            try:
                code = main(command) or 0
            except SystemExit as exc:  # --help
                code = exc.code
    return [code, out[0], err[0]]


if __name__ == "__main__":
    print(json.dumps([run(command) for command in json.loads(sys.argv[1])]))
