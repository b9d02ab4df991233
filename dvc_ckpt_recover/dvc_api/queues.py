"""Go through DVC's queues one entry at a time, so that a broken one breaks no other.

Failure rule: an entry that DVC cannot read is left out, with one line on stderr.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from dvc_ckpt_recover import failures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dvc_ckpt_recover.patching import Call


class _View:
    """A queue that is like another one but for some attributes."""

    def __init__(self, queue: Any, **instead: Any) -> None:  # noqa: ANN401
        self.__dict__.update(instead)
        self._queue = queue

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._queue, name)


def _described(item: Any) -> str:  # noqa: ANN401
    if isinstance(item, str):
        return f"the run {item[:7]}"
    entry = getattr(item, "entry", item)
    return f"the run {entry.name or entry.stash_rev[:7]}"


def say_skipped(item: Any, error: Exception) -> None:  # noqa: ANN401
    """Say in one line that an entry of a queue cannot be shown, and why."""
    failures.note(f"{_described(item)} cannot be shown", error)


class Entries:
    """The calls that one call of a queue's method is made of, one for each entry.

    Args:
        call: Of the method.
        source: What the method gets its entries from: a method, or an attribute to iterate over.
    """

    def __init__(self, call: Call, source: str) -> None:
        self._call = call
        self._queue = call["self"]
        self._source = source

    def __iter__(self) -> Iterator[Any]:
        """Yield the entries; those after one that breaks DVC's own iteration are lost."""
        source = getattr(self._queue, self._source)
        try:
            yield from source() if callable(source) else source
        except Exception as exc:  # noqa: BLE001
            failures.note("some runs of the queue cannot be shown", exc)

    def one(self, item: Any) -> Any:  # noqa: ANN401
        """Return what the method returns for ``item`` alone."""
        call = self._call
        only = [item]
        attribute = getattr(self._queue, self._source)
        instead = (lambda *_, **__: iter(only)) if callable(attribute) else only
        view = _View(self._queue, **{self._source: instead})
        arguments = {**call.arguments, "self": view}
        extra = arguments.pop("kwargs", {})
        return call.original(**arguments, **extra)

    def generate(self, *_: Any, **__: Any) -> Iterator[Any]:  # noqa: ANN401
        """Do what the method does, a generator, for each entry that can be read."""
        for item in self:
            try:
                found = list(self.one(item))
            except Exception as exc:  # noqa: BLE001
                say_skipped(item, exc)
                continue
            yield from found

    def collect(self, wanted: Callable[[Any], bool] = lambda _: True) -> dict[str, Any]:
        """Do what the method does, returning a dict, for each wanted entry that can be read."""
        result: dict[str, Any] = {}
        for item in self:
            try:
                found = self.one(item) if wanted(item) else {}
            except Exception as exc:  # noqa: BLE001
                say_skipped(item, exc)
                continue
            for key, value in found.items():
                if isinstance(value, list):
                    result.setdefault(key, []).extend(value)
                else:
                    result[key] = value
        return result


def entry_of(item: Any) -> Any:  # noqa: ANN401
    """Return the queue entry in what a queue iterates over."""
    return getattr(item, "entry", item)


STATES = ("active", "queued", "failed", "success")
"""Kinds of entries of a queue; each has a method ``iter_...``."""


def status_rows(call: Call) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield each entry of ``queue status``: its kind, the entry, and DVC's row of it."""
    queue = call["self"]
    for kind in STATES:
        name = f"iter_{kind}"
        for item in Entries(call, name):
            others = {f"iter_{other}": _nothing for other in STATES if other != kind}
            try:
                (row,) = call.original(_View(queue, **{**others, name: _just(item)}))
            except Exception as exc:  # noqa: BLE001
                say_skipped(item, exc)
                continue
            yield kind, entry_of(item), row


def _nothing() -> Iterator[Any]:
    return iter(())


def _just(item: Any) -> Callable[[], Iterator[Any]]:  # noqa: ANN401
    return lambda: iter((item,))
