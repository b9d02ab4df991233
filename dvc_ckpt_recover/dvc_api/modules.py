"""Import the modules of DVC that hold hook points, so that these bind in this process."""

from __future__ import annotations

import importlib

from dvc_ckpt_recover.dvc_api.points import POINTS


def load_point_modules() -> dict[str, str]:
    """Import each module that a point is in.

    Returns:
        Module -> why it cannot be imported; a version without it is no error.
    """
    failed = {}
    for module in dict.fromkeys(point.module for point in POINTS):
        try:
            importlib.import_module(module)
        except Exception as exc:  # noqa: BLE001
            failed[module] = f"{type(exc).__name__}: {exc}"
    return failed
