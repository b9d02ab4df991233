"""Which DVC this is."""

from __future__ import annotations

from packaging.version import Version


def dvc_version() -> Version:
    """Return the version of the DVC in this process."""
    import dvc

    return Version(dvc.__version__)


def in_window(window: tuple[str | None, str | None]) -> bool:
    """Return whether this DVC is from the first version on and before the second."""
    since, until = window
    now = dvc_version()
    return (since is None or now >= Version(since)) and (until is None or now < Version(until))


def has_native_checkpoints() -> bool:
    """Return whether DVC itself makes checkpoint commits: before 3.0, which removed them."""
    return in_window((None, "3.0"))
