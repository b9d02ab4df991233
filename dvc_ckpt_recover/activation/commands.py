"""Handler that adds our commands to ``dvc exp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dvc_ckpt_recover.dvc_api.commands import Command, add_commands

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator

    from dvc_ckpt_recover.patching import Call, Outcome


def _recover_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="*",
        metavar="<name>",
        help="Runs to recover: experiment name, run id or temp dir (all orphans by default).",
    )
    parser.add_argument("--list", action="store_true", help="List the runs and do nothing.")
    parser.add_argument("--all", action="store_true", help="Recover all orphans.")
    parser.add_argument("--dry-run", action="store_true", help="Say what would be done.")
    parser.add_argument(
        "--check",
        action="store_true",
        help="Find damaged refs and objects of experiments, repair what can be, name the rest.",
    )
    parser.add_argument(
        "-f",
        "--force",
        action="store_true",
        help="Recover runs of other hosts that have given no sign of life for two minutes.",
    )
    parser.add_argument("--json", action="store_true", help="Print JSON.")


def _resume_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        metavar="<experiment>",
        help="Partial experiment to go on with (the only one of HEAD by default).",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--temp",
        action="store_true",
        help="Run in a separate temporary directory, now (the default).",
    )
    where.add_argument(
        "--queue",
        action="store_true",
        help="Put it into the run queue, for `dvc queue start`.",
    )
    parser.add_argument(
        "-S",
        "--set-param",
        action="append",
        default=[],
        metavar="[<filename>:]<param_name>=<param_value>",
        help="Go on with another value of a param.",
    )
    parser.add_argument(
        "--from",
        dest="rev",
        metavar="<commit>",
        help="Go on from this checkpoint instead of the newest that is whole.",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="Print JSON; all other output goes to stderr.",
    )


COMMANDS = (
    Command(
        "recover",
        "Bring in what runs left whose dvc died.",
        "Bring in what runs left whose dvc died: their checkpoints become a Partial experiment,\n"
        "a finished experiment that nobody collected is collected, and the temp dir is removed\n"
        "once all of it is proven to be in the repository. Runs that are alive are not touched.",
        _recover_arguments,
        "dvc_ckpt_recover.cli.recover:run",
    ),
    Command(
        "resume",
        "Go on with a partial experiment from its newest whole checkpoint.",
        "Go on with a partial experiment from its newest whole checkpoint, with the experiment's\n"
        "own code and params. Whatever is damaged is named, and the checkpoint before is taken.\n"
        "To go on with changes of yours: dvc exp apply, edit, dvc exp run --temp.",
        _resume_arguments,
        "dvc_ckpt_recover.cli.resume:run",
    ),
)


def add_parser(call: Call) -> Generator[None, Outcome, None]:  # noqa: ARG001
    """Around ``dvc.commands.experiments.add_parser``: our commands stand in its list."""
    add_commands(COMMANDS)
    yield
