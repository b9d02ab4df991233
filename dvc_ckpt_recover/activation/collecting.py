"""``dvc gc`` spares what runs need that are alive or not recovered yet.

Failure rule: when it cannot be known what they need, ``dvc gc`` is refused, since it removes for
good; nothing else is ever refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from dvc_ckpt_recover.dvc_api.cache import Cache, hash_infos
from dvc_ckpt_recover.dvc_api.executors import main_root_of
from dvc_ckpt_recover.dvc_api.project import refuse
from dvc_ckpt_recover.git import Store
from dvc_ckpt_recover.recovery.needs import needed_objects
from dvc_ckpt_recover.runs import Places

if TYPE_CHECKING:
    from dvc_ckpt_recover.patching import Call, Steps

_needed: list[set[tuple[str, str]]] = []


def gc(call: Call) -> Steps:
    """Around ``dvc.repo.gc.gc``: find out first what must stay."""
    repo = call["self"]
    try:
        _needed[:] = [_needs_of(repo)]
    except Exception as exc:  # noqa: BLE001 - whatever it is, nothing may be removed then
        yield _refusal(exc)
        return
    yield
    _needed.clear()


def _needs_of(repo: Any) -> set[tuple[str, str]]:  # noqa: ANN401
    root = main_root_of(repo)
    if root is None:
        return set()
    return needed_objects(Places(str(repo.tmp_dir)), Store(root), Cache(repo))


def _refusal(error: Exception) -> Any:  # noqa: ANN401
    def refuse_gc(*_args: object, **_kwargs: object) -> NoReturn:
        refuse(f"dvc gc would remove what running or dead experiments still need: {error}")

    return refuse_gc


def used_objects(_call: Call) -> Steps:
    """Around ``Repo.used_objs``: during a ``dvc gc``, what runs need is used too."""
    outcome = yield
    if _needed and outcome.error is None:
        outcome.value.setdefault(None, set()).update(hash_infos(_needed[0]))
