"""Bind a handler around one attribute.

A handler is a generator function: what stands before its ``yield`` runs before the original, what
stands behind runs after it, with the ``Outcome``. Yielding a callable runs that instead of
the original.

Failure rule: an error of a handler is noted and the original's result stands; an attribute that is
missing or has other parameters is declined with a reason, not wrapped.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable

from dvc_ckpt_recover import failures

if TYPE_CHECKING:
    from types import ModuleType


@dataclass(frozen=True)
class Point:
    """A place in a foreign package that a handler can be bound to.

    Attributes:
        name: The logical name, the same for every version.
        module: Module that defines it.
        qualname: Attribute path in the module, such as ``TempDirExecutor.cleanup``.
        params: Parameters that the handler asks for by name.
        window: First version that has it and first that has not, either may be None.
    """

    name: str
    module: str
    qualname: str
    params: tuple[str, ...] = ()
    window: tuple[str | None, str | None] = (None, None)


@dataclass
class Call:
    """One call of a wrapped attribute."""

    original: Callable[..., Any]
    signature: inspect.Signature
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    _bound: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return all arguments by name, defaults included."""
        if self._bound is None:
            bound = self.signature.bind(*self.args, **self.kwargs)
            bound.apply_defaults()
            self._bound = dict(bound.arguments)
        return self._bound

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        """Return the argument called ``name``."""
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return the argument called ``name``, or ``default`` where this version has none."""
        return self.arguments.get(name, default)


@dataclass
class Outcome:
    """How the original ended; a handler may replace either."""

    value: Any = None
    error: BaseException | None = None


Steps = Generator[Any, Outcome, None]
"""What a handler returns, being a generator function."""
Handler = Callable[[Call], Steps]


@dataclass
class Binding:
    """What became of one point in this process."""

    point: Point
    state: str = "waiting"
    reason: str = ""


def _run(name: str, handler: str, call: Call) -> Any:  # noqa: ANN401
    steps = None
    instead: Any = None
    try:
        steps = _load(handler)(call)
        instead = next(steps, None)
    except Exception as exc:  # noqa: BLE001
        failures.note(f"before {name}", exc)
        steps = None
    outcome = Outcome()
    try:
        outcome.value = (instead or call.original)(*call.args, **call.kwargs)
    except BaseException as exc:  # noqa: BLE001
        outcome.error = exc
    if steps is not None:
        try:
            steps.send(outcome)
        except StopIteration:
            pass
        except Exception as exc:  # noqa: BLE001
            failures.note(f"after {name}", exc)
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def _load(handler: str) -> Handler:
    module, _, name = handler.partition(":")
    loaded: Handler = getattr(importlib.import_module(module), name)
    return loaded


def _wrapper(point: Point, func: Callable[..., Any], handler: str) -> Callable[..., Any]:
    signature = inspect.signature(func)
    missing = [name for name in point.params if name not in signature.parameters]
    if missing:
        msg = f"it has no parameter {', '.join(missing)}"
        raise LookupError(msg)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return _run(point.name, handler, Call(func, signature, args, kwargs))

    return wrapper


def bind(point: Point, module: ModuleType, handler: str) -> Binding:
    """Wrap the attribute that ``point`` names in ``module``.

    Args:
        point: What to wrap.
        module: The imported module.
        handler: ``module:function`` of the handler, imported at the first call.

    Returns:
        The binding, ``bound`` or ``missing`` with the reason.
    """
    *path, attr = point.qualname.split(".")
    try:
        owner: Any = functools.reduce(getattr, path, module)
        raw = inspect.getattr_static(owner, attr)
        if isinstance(owner, type) and attr not in vars(owner):
            return Binding(point, "missing", f"{point.qualname} is inherited")
        kind = type(raw) if isinstance(raw, (staticmethod, classmethod)) else None
        wrapped = _wrapper(point, raw.__func__ if kind else raw, handler)
        setattr(owner, attr, kind(wrapped) if kind else wrapped)
    except (AttributeError, LookupError, TypeError, ValueError) as exc:
        return Binding(point, "missing", f"{point.module}.{point.qualname}: {exc}")
    return Binding(point, "bound")
