"""Locks held by the kernel for as long as a process lives; one face for all platforms."""

from __future__ import annotations

import sys

if sys.platform == "win32":  # pragma: no cover
    from dvc_ckpt_recover.durable.locks_windows import KernelLock
else:
    from dvc_ckpt_recover.durable.locks_posix import KernelLock

__all__ = ["KernelLock"]
