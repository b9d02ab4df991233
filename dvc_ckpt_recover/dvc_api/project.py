"""Open the DVC project that a run belongs to."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from dvc_ckpt_recover.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.runs import RunRecord


@contextmanager
def open_project(record: RunRecord) -> Iterator[Any]:
    """Open the project in the main repository, as it is in the user's workspace.

    Raises:
        NotFoundError: There is no DVC project any more.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    root = os.path.dirname(os.path.join(record.main_root, record.dvc_dir))
    try:
        repo = Repo(root)
    except DvcException as exc:
        msg = f"{root} is not a DVC project that can be opened ({exc})"
        raise NotFoundError(msg) from exc
    try:
        yield repo
    finally:
        repo.close()


def place_of(repo: Any) -> tuple[str, str]:  # noqa: ANN401
    """Return the Git root and the ``.dvc/tmp`` of the project that ``repo`` is open on."""
    return (
        os.path.abspath(str(repo.scm.root_dir)),
        os.path.abspath(str(repo.tmp_dir)),
    )


def tmp_dir_here() -> str | None:
    """Return ``.dvc/tmp`` of the project that the current folder lies in, or None."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        return os.path.join(Repo.find_dvc_dir(), "tmp")
    except DvcException:
        return None


def write_line(line: str) -> None:
    """Write a line to stderr the way DVC does, around its progress bars, if it is still open."""
    from dvc.ui import ui

    with suppress(OSError, ValueError):  # a terminal that was closed must not stop the pipeline
        ui.error_write(line)


def refuse(reason: str) -> NoReturn:
    """Raise the error with which DVC ends a command that must not go on."""
    from dvc.exceptions import DvcException

    raise DvcException(reason)
