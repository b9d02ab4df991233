"""Get the history of a ref back from a Git remote, when the repository's own is damaged.

It is fetched into a repository of its own: in one whose refs or objects are damaged ``git fetch``
fails, or trusts what it has and does not ask for it again.

Failure rule: a remote that cannot be asked, or does not have it, gives nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile

from dvc_ckpt_recover.durable import make_private_dir
from dvc_ckpt_recover.errors import DamagedError, NotFoundError
from dvc_ckpt_recover.git.store import Store
from dvc_ckpt_recover.git.transfer import copy_history

_TIMEOUT = 120
"""Seconds for one answer of a remote."""
_DEPTHS = ("--depth=64", "--depth=2048", "--unshallow")
"""An experiment is a few commits on top of a history that may be long."""


def from_remotes(store: Store, ref: str, stop: str, folder: str, tip: str = "") -> tuple[str, str]:
    """Copy what is reachable from ``ref`` of the first remote that has it, over what is damaged.

    Args:
        store: The repository, with its remotes.
        ref: The ref's full name.
        stop: The commit before the first that is needed.
        folder: Folder for the repository that is fetched into; it need not exist.
        tip: The commit that must come; empty for the one that the remote's ref names.

    Returns:
        The commit and the remote's name, both empty when none has it.

    Raises:
        UnsafeError, OSError: An object could not be stored.
    """
    for remote in store.repo.remotes:
        name = str(remote.name)
        make_private_dir(folder)
        aside = tempfile.mkdtemp(prefix=".", suffix=".tmp", dir=folder)
        try:
            sha = _fetch(store, aside, name, ref, stop=stop, tip=tip)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        if sha:
            return sha, name
    return "", ""


def _fetch(store: Store, aside: str, remote: str, ref: str, *, stop: str, tip: str) -> str:  # noqa: PLR0913
    if not _git(store, aside, "init", "--quiet", "--bare", aside):
        return ""
    for depth in _DEPTHS:
        if not _git(store, aside, "fetch", "--quiet", "--no-tags", depth, remote, f"+{ref}:{ref}"):
            return ""
        try:
            source = Store(aside)
            sha = tip or str(source.repo.references[ref].target)
            copy_history(source, store, sha, stop, force=True)
        except (DamagedError, NotFoundError, KeyError):
            continue  # the history is longer
        return sha
    return ""


def _git(store: Store, aside: str, *words: str) -> bool:
    """Run git on the repository ``aside``, with the other one's settings; return whether it worked.

    In the other's folder, since a remote's path may be relative to it.
    """
    settings = f"include.path={os.path.join(store.common_dir, 'config')}"
    command = ["git", "-c", settings, f"--git-dir={aside}", *words]
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            command,
            cwd=store.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT,
            env=env,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
