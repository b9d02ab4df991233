"""Commands of ours in DVC's own command line: ``dvc exp NAME``.

Failure rule: an error of ours is one line and its exit code, as DVC's own errors are.
"""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from dvc_ckpt_recover.errors import RecoverError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

AddArguments = Callable[[argparse.ArgumentParser], None]


@dataclass(frozen=True)
class Command:
    """One command; it stands in ``SUB_COMMANDS`` where DVC has a module.

    Attributes:
        name: Its name after ``dvc exp``.
        help: One line for the list of commands.
        description: What ``--help`` says first.
        add_arguments: Adds its arguments to the parser.
        run: ``module:function`` that is called with DVC's ``Repo`` and the parsed arguments and
            returns the exit code; imported only when the command is used.
    """

    name: str
    help: str
    description: str
    add_arguments: AddArguments
    run: str

    def add_parser(self, subparsers: Any, parent_parser: Any) -> None:  # noqa: ANN401
        """Add the command the way DVC's own modules do."""
        parser = subparsers.add_parser(
            self.name,
            parents=[parent_parser],
            description=self.description,
            help=self.help,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_arguments(parser)
        parser.set_defaults(func=_command_class(self))


def _command_class(command: Command) -> type:
    from dvc.cli.command import CmdBase

    class Cmd(CmdBase):  # type: ignore[misc]
        def run(self) -> int:
            module, _, name = command.run.partition(":")
            function = getattr(importlib.import_module(module), name)
            try:
                code: int = function(self.repo, self.args)
            except RecoverError as exc:
                from dvc_ckpt_recover.dvc_api.project import write_line

                write_line(f"ERROR: {exc}")
                return exc.exit_code
            return code

    return Cmd


def add_commands(commands: Iterable[Command]) -> None:
    """Put commands into DVC's list, once; ``dvc exp`` then has them."""
    from dvc.commands import experiments

    known = {found.name for found in experiments.SUB_COMMANDS if isinstance(found, Command)}
    experiments.SUB_COMMANDS += [new for new in commands if new.name not in known]


def write(line: str) -> None:
    """Write a line to stdout the way DVC does."""
    from dvc.ui import ui

    ui.write(line)


def with_progress(items: list[Any], what: str) -> Iterator[Any]:
    """Go through ``items`` with DVC's progress bar when a terminal is there.

    Args:
        items: What to go through.
        what: The bar's description.
    """
    from dvc.progress import Tqdm

    with Tqdm(total=len(items), desc=what, unit="run", leave=False) as bar:
        for item in items:
            yield item
            bar.update(1)
