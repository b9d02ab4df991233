"""Find the partial experiment that is meant, or say why there is none to go on with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dvc_ckpt_recover.dvc_api.executors import (
    baseline_of,
    experiment_name,
    experiment_ref,
    is_experiment_ref,
)
from dvc_ckpt_recover.errors import NotFoundError, RefusedError
from dvc_ckpt_recover.git import checkpoints_of, closing_of
from dvc_ckpt_recover.runs.survey import RunFacts, RunState, survey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dvc_ckpt_recover.git import Refs, Store
    from dvc_ckpt_recover.model import ClosingNote
    from dvc_ckpt_recover.runs import Places

_RUNNING = (RunState.ALIVE, RunState.ALONE, RunState.ELSEWHERE)


@dataclass(frozen=True)
class Partial:
    """One partial experiment of the main repository.

    Attributes:
        name: Its name.
        ref: Its ref.
        baseline: The commit that it belongs to.
        tip: What the ref points to: the closing commit.
        note: What that commit says.
    """

    name: str
    ref: str
    baseline: str
    tip: str
    note: ClosingNote

    def checkpoints(self, store: Store) -> list[str]:
        """Return its checkpoint commits, newest first."""
        return checkpoints_of(store, self.tip, self.baseline)


def _partial(store: Store, ref: str, tip: str) -> Partial | None:
    note = closing_of(store, tip)
    return Partial(experiment_name(ref), ref, baseline_of(ref), tip, note) if note else None


def partials_of(refs: Refs, baseline: str | None = None) -> list[Partial]:
    """Return all partial experiments, or those of one baseline, sorted by name."""
    found = []
    for ref, tip in refs.list("refs/exps/").items():
        if is_experiment_ref(ref) and baseline in (None, baseline_of(ref)):
            found.append(_partial(refs.store, ref, tip))
    return sorted((one for one in found if one), key=lambda one: one.name)


def find_partial(
    places: Places, refs: Refs, head: str, name: str | None, queued: Iterable[str]
) -> Partial:
    """Return the partial experiment to go on with.

    Args:
        places: The project's files of this package.
        refs: The main repository's refs.
        head: The commit of HEAD, whose experiments come first.
        name: Name or ref asked for, or None for the only one of ``head``.
        queued: Refs that tasks waiting in the queue go on.

    Raises:
        NotFoundError: There is no such experiment, or none at all.
        RefusedError: It runs, waits in the queue, is finished, kept nothing, or has siblings.
    """
    found = _named(places, refs, head, name) if name else _only(refs, head)
    for facts in survey(places, refs.store):
        if facts.state in _RUNNING and _is_run_of(facts, found):
            msg = f"the experiment '{found.name}' is running"
            raise RefusedError(msg, todo="see it with: dvc exp show")
    if found.ref in set(queued):
        msg = f"the experiment '{found.name}' is waiting in the queue already"
        raise RefusedError(msg, todo="start it with: dvc queue start")
    return found


def _is_run_of(facts: RunFacts, partial: Partial) -> bool:
    record = facts.record
    if record is None:
        return False
    return record.branch == partial.ref or (
        record.name == partial.name and record.baseline == partial.baseline
    )


def _only(refs: Refs, head: str) -> Partial:
    found = partials_of(refs, head)
    if len(found) == 1:
        return found[0]
    if found:
        msg = f"{len(found)} experiments of {head[:7]} are partial:{_list(found)}"
        raise RefusedError(msg, todo="choose one: dvc exp resume NAME")
    msg = f"no experiment of {head[:7]} is partial"
    others = partials_of(refs)
    todo = f"those of other commits:{_list(others)}" if others else None
    raise NotFoundError(msg, todo=todo)


def _list(partials: list[Partial]) -> str:
    return "".join(
        f"\n  {one.name}  ({_count(one.note.checkpoints)}; {one.note.cause})" for one in partials
    )


def _count(checkpoints: int) -> str:
    return "1 checkpoint" if checkpoints == 1 else f"{checkpoints} checkpoints"


def _named(places: Places, refs: Refs, head: str, name: str) -> Partial:
    ref = _ref_of(refs, head, name)
    if ref is None:
        raise _absent(places, refs, name)
    tip = refs.get(ref)
    found = _partial(refs.store, ref, tip) if tip else None
    if found is None:
        msg = f"the experiment '{experiment_name(ref)}' is finished"
        raise RefusedError(msg, todo="to change and run it again: dvc exp apply, dvc exp run")
    return found


def _ref_of(refs: Refs, head: str, name: str) -> str | None:
    own = name if is_experiment_ref(name) else experiment_ref(head, name)
    if refs.get(own):
        return own
    others = [
        ref
        for ref in refs.list("refs/exps/")
        if is_experiment_ref(ref) and experiment_name(ref) == name
    ]
    if len(others) > 1:
        commits = ", ".join(sorted(baseline_of(ref)[:7] for ref in others))
        msg = f"there are experiments called '{name}' of several commits ({commits})"
        raise RefusedError(msg, todo="give the whole ref, from: git for-each-ref refs/exps")
    return others[0] if others else None


def _absent(places: Places, refs: Refs, name: str) -> NotFoundError | RefusedError:
    for facts in survey(places, refs.store):
        if facts.record is None or facts.record.name != name:
            continue
        if facts.state in _RUNNING:
            return RefusedError(f"the experiment '{name}' is running", todo="dvc exp show")
        if facts.state == RunState.FAILED:
            msg = f"the experiment '{name}' failed and left no checkpoint ({facts.record.cause})"
            return RefusedError(msg, todo="run it anew: dvc exp run --temp")
        return RefusedError(f"the run of '{name}' ended unseen", todo="first: dvc exp recover")
    found = partials_of(refs)
    known = f"partial are:{_list(found)}" if found else "no experiment is partial"
    return NotFoundError(f"there is no experiment called '{name}'", todo=known)
