"""What a child does with a scene: go on with the run, or recover it, as the product does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from dvc_ckpt_recover.activation.recovering import RECOVERABLE, Recovery
from dvc_ckpt_recover.checkpointing.commit import Committer
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.errors import RecoverError
from dvc_ckpt_recover.runs import Lease
from dvc_ckpt_recover.selftest import scene as scenes

if TYPE_CHECKING:
    from dvc_ckpt_recover.selftest.scene import Scene

Say = Callable[..., None]


def recover(scene: Scene, say: Say) -> None:
    """Recover what is there, as ``dvc exp recover`` does."""
    try:
        recovery = Recovery(scenes.light_repo(scene))
        found = recovery.runs()
    except (RecoverError, OSError) as exc:  # DVC prints it
        say(error=str(exc))
        return
    for facts in found:
        if facts.state in RECOVERABLE:
            done = recovery.recover(facts)
            ended = done.ending.ended if done.ending else None
            say(recovered=done.name, ended=ended, error=done.error)
    recovery.tidy()


def train(scene: Scene, say: Say, steps: int = 3, size: int = 300) -> None:
    """Make checkpoints as a live run does; say when each is staged and when it is ready."""
    lease = Lease(scene.places, scene.run_id)
    try:
        lease.hold()
        committer = Committer(scenes.load(scene), Cache(scenes.light_repo(scene)))
    except (RecoverError, OSError) as exc:
        say(error=str(exc))
        return
    for step in range(1, steps + 1):
        try:
            staged = scenes.stage(scene, step, size)
            say(staged=step)
            committer.commit(staged)
        except (RecoverError, OSError) as exc:
            say(skipped=step, error=str(exc))
            committer.forget()
        else:
            say(ready=step)


ACTIONS: dict[str, Callable[..., Any]] = {"recover": recover, "train": train}
