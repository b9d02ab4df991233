"""Judge a temp dir that no record of ours speaks of: one that plain DVC left, perhaps."""

from __future__ import annotations

import os

import psutil


def is_worked_in(folder: str) -> bool:
    """Return whether a process of this host works inside ``folder``.

    DVC and the stages' commands both change into the temp dir. Where another user's process
    may not be looked at, a folder of that user counts as worked in.
    """
    folder = os.path.realpath(folder)
    hidden = False
    for process in psutil.process_iter():
        try:
            cwd = process.cwd()
        except psutil.AccessDenied:
            hidden = True
            continue
        except (psutil.Error, OSError):
            continue
        if cwd == folder or cwd.startswith(folder + os.sep):
            return True
    return hidden and _is_of_another(folder)


def _is_of_another(folder: str) -> bool:
    try:
        return os.stat(folder).st_uid != os.getuid()
    except OSError:
        return False


def is_running(word: str, pid: int | None = None) -> bool:
    """Return whether a process lives that has ``word`` in its command line.

    Args:
        word: An argument, such as ``exec-run``.
        pid: The process to look at, or None for any.
    """
    try:
        processes = [psutil.Process(pid)] if pid is not None else psutil.process_iter()
    except psutil.Error:
        return False
    return any(_has_word(process, word) for process in processes)


def _has_word(process: psutil.Process, word: str) -> bool:
    try:
        return word in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
