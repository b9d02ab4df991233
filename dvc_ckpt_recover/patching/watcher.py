"""Call back when a module has been imported, without importing it.

Failure rule: an error in a callback is noted; the import itself always goes on.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Callable

from dvc_ckpt_recover import failures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

Callback = Callable[["ModuleType"], None]


class _CallingLoader:
    """Stands in for a module's loader until the module has run."""

    def __init__(self, loader: Loader, callback: Callback) -> None:
        self._loader = loader
        self._callback = callback

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _call(self._callback, module)


def _call(callback: Callback, module: ModuleType) -> None:
    try:
        callback(module)
    except Exception as exc:  # noqa: BLE001
        failures.note(f"hooking {module.__name__}", exc)


class ImportWatcher:
    """A meta path finder that finds modules with the other finders and watches them run.

    Args:
        callbacks: Module name -> what to call with the module once it was imported.
    """

    def __init__(self, callbacks: dict[str, Callback]) -> None:
        self._waiting = dict(callbacks)

    def install(self) -> None:
        """Start watching; modules that are already there are called back at once."""
        for name in [name for name in self._waiting if name in sys.modules]:
            _call(self._waiting.pop(name), sys.modules[name])
        sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """Stop watching."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the spec of a watched module, with a loader that calls back."""
        callback = self._waiting.pop(name, None)  # popped first, so that find_spec does not recur
        if callback is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, callback)  # type: ignore[assignment]
        return spec
