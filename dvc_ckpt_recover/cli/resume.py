"""``dvc exp resume``: go on with a partial experiment from its newest whole checkpoint.

Failure rule: until the run starts nothing is changed, whatever goes wrong.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.activation.recovering import Recovery
from dvc_ckpt_recover.dvc_api import resume
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.dvc_api.commands import write as say
from dvc_ckpt_recover.dvc_api.remote import mend
from dvc_ckpt_recover.git import Refs, Store
from dvc_ckpt_recover.resuming import Verifier, choose, find_partial
from dvc_ckpt_recover.resuming.go_on import prepare
from dvc_ckpt_recover.runs import Places
from dvc_ckpt_recover.runs.survey import RunState

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from dvc_ckpt_recover.resuming import Choice, Partial


def run(repo: Any, args: argparse.Namespace) -> int:  # noqa: ANN401
    """Do what the arguments say and return the exit code.

    Raises:
        RecoverError: There is nothing to go on with; nothing was changed.
    """
    with _stdout_for_json(wanted=args.json) as write:
        found = _go_on(repo, args)
        write(json.dumps(found))
    return 0


def _go_on(repo: Any, args: argparse.Namespace) -> dict[str, Any]:  # noqa: ANN401
    store = Store(os.path.realpath(repo.scm.root_dir))
    refs = Refs(store)
    places = Places(os.path.realpath(repo.tmp_dir))
    head = repo.scm.get_rev()
    _recover_first(repo, head, args.name)
    partial = find_partial(places, refs, head, args.name, resume.queued_branches(repo))
    cache = Cache(repo)
    verifier = Verifier(store, cache, lambda oids, name: mend(repo, cache, oids, name))
    choice = choose(store, partial, verifier, args.rev)
    task, start = prepare(repo, store, partial, choice, args.set_param)
    _announce(partial, choice)
    for oid, hash_name in verifier.damaged:
        cache.set_aside(oid, hash_name, places.damaged)
    if args.queue:
        resume.put_in_queue(repo, task, start)
        say(f"Queued experiment '{partial.name}' for future execution.")
    else:
        resume.run_in_temp_dir(repo, task, start)
    return _as_json(partial, choice, refs.get(partial.ref), queued=args.queue)


def _recover_first(repo: Any, head: str, name: str | None) -> None:  # noqa: ANN401
    """Publish what is asked for if its dvc died and nobody has recovered it yet."""
    recovery = Recovery(repo)
    for facts in recovery.runs():
        record = facts.record
        if facts.state != RunState.ORPHAN or record is None:
            continue
        if name in (record.name, facts.run_id) if name else record.baseline == head:
            done = recovery.recover(facts)
            say(f"Recovered '{done.name}'." if not done.error else f"'{done.name}': {done.error}.")


def _announce(partial: Partial, choice: Choice) -> None:
    for one in choice.rejected:
        say(f"Checkpoint {one.number} ({one.sha[:7]}) is not used: {one.reason}.")
    unproven = ", unproven" if choice.state == "unproven" else ""
    where = f"checkpoint {choice.number} ({choice.sha[:7]}{unproven})"
    say(f"Going on with experiment '{partial.name}' from {where}.")


def _as_json(partial: Partial, choice: Choice, tip: str | None, *, queued: bool) -> dict[str, Any]:
    return {
        "experiment": partial.name,
        "ref": partial.ref,
        "baseline": partial.baseline,
        "checkpoint": {"number": choice.number, "rev": choice.sha, "state": choice.state},
        "rejected": [
            {"number": one.number, "rev": one.sha, "reason": one.reason} for one in choice.rejected
        ],
        "queued": queued,
        "rev": None if queued else tip,
    }


@contextmanager
def _stdout_for_json(*, wanted: bool) -> Iterator[Any]:
    """Yield a function that prints the JSON; meanwhile stdout, also the trainer's, is stderr."""
    if not wanted:
        yield lambda _text: None
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    lines: list[str] = []
    try:
        yield lines.append
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        for line in lines:
            print(line, flush=True)  # noqa: T201
