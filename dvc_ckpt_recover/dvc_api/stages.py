"""Read stages and outputs into plain values, so that other threads need not touch DVC's objects."""

from __future__ import annotations

import copy
import os
import re
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from dvc_ckpt_recover.dvc_api.lockfile import LOCK_NAME

StageKey = tuple[str, str]
"""Path of the stage's ``dvc.lock`` relative to the Git root, with ``/``; its name."""


@dataclass(frozen=True)
class OutView:
    """One output.

    Attributes:
        path: Where it is on the disk.
        repo_path: The same, relative to the Git root, with ``/``.
        def_path: As ``dvc.yaml`` says it.
        cached: Whether DVC stores it; otherwise Git does.
        resumable: Whether it is there when the stage starts (``checkpoint`` or ``persist``).
        shown: Whether it is a metric or a plot.
    """

    path: str
    repo_path: str
    def_path: str
    cached: bool
    resumable: bool
    shown: bool = False


@dataclass(frozen=True)
class StageView:
    """One stage of a pipeline file.

    Attributes:
        key: See ``StageKey``.
        address: Its address in DVC's messages.
        outs: Its outputs on the local disk.
        entry: Its lock entry without outputs; filled only for the stage that runs.
        meta: What ``meta`` holds in ``dvc.yaml``.
    """

    key: StageKey
    address: str
    outs: tuple[OutView, ...]
    entry: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PipelineView:
    """What a checkpoint must know of the pipeline around one stage.

    Attributes:
        git_root: Work tree that all paths are relative to.
        stage: The stage.
        related: Stages of the same pipeline or pipeline file, itself included.
        top_level: Metrics and plots files that belong to no output.
    """

    git_root: str
    stage: StageView
    related: tuple[StageView, ...]
    top_level: tuple[str, ...]


def _repo_path(path: str, root: str) -> str:
    return os.path.relpath(path, root).replace(os.sep, "/")


def _out(out: Any, root: str) -> OutView | None:  # noqa: ANN401
    path = os.path.abspath(str(out.fs_path))
    if out.fs.protocol not in ("local", "file") and "local" not in str(out.fs.protocol):
        return None
    if not path.startswith(root + os.sep):
        return None
    return OutView(
        path=path,
        repo_path=_repo_path(path, root),
        def_path=str(out.def_path),
        cached=bool(out.use_cache),
        resumable=bool(out.persist or getattr(out, "checkpoint", False)),
        shown=bool(out.metric or out.plot),
    )


def _entry(stage: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return DVC's own lock entry of ``stage`` for its command, dependencies and params."""
    from dvc.stage.serialize import to_single_stage_lockfile

    bare = copy.copy(stage)
    bare.outs = []
    try:
        entry: dict[str, Any] = _plain(to_single_stage_lockfile(bare))
    except (AssertionError, AttributeError):  # --force: DVC has not hashed the dependencies yet
        return {"cmd": stage.cmd}
    return entry


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return ``value`` with plain dicts and lists, so that it is written as DVC writes it."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _view(stage: Any, root: str, *, with_entry: bool = False) -> StageView | None:  # noqa: ANN401
    if not getattr(stage, "name", None):
        return None  # a .dvc file has no lock entry
    lock = os.path.join(os.path.dirname(os.path.abspath(stage.path)), LOCK_NAME)
    outs = (_out(out, root) for out in stage.outs)
    return StageView(
        key=(_repo_path(lock, root), str(stage.name)),
        address=str(stage.addressing),
        outs=tuple(out for out in outs if out is not None),
        entry=_entry(stage) if with_entry else {},
        meta=dict(stage.meta) if isinstance(stage.meta, dict) else {},
    )


_known: WeakKeyDictionary[Any, dict[str, tuple[StageView, ...]]] = WeakKeyDictionary()
"""Project as DVC opened it -> address of a stage -> the stages around it."""


def _around(stage: Any, root: str) -> tuple[StageView, ...]:  # noqa: ANN401
    """Return the stages around ``stage``; DVC builds its graph anew after each stage."""
    known = _known.setdefault(stage.repo, {})
    address = str(stage.addressing)
    if address not in known:
        views = (_view(other, root) for other in _related(stage))
        found = tuple(view for view in views if view is not None)
        lock = next((view.key[0] for view in found if view.address == address), None)
        alike = (view.address for view in found if view.key[0] == lock)  # of the same file
        known.update(dict.fromkeys(alike, found))
        known[address] = found
    return known[address]


def _related(stage: Any) -> list[Any]:  # noqa: ANN401
    """Return the stages connected with ``stage`` by dependencies or by their pipeline file."""
    import networkx as nx

    graph = stage.repo.index.graph
    near = [other for other in graph if other.path == stage.path]
    found = {}
    for start in [*near, stage]:
        if start in graph and start.addressing not in found:
            for other in nx.node_connected_component(graph.to_undirected(as_view=True), start):
                found[other.addressing] = other
    return list(found.values())


_top_known: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()
"""Project as DVC opened it -> its metrics and plots files that are no outputs."""


def _top_level(repo: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Return the top-level files, looked up once: DVC reads all pipeline files for it."""
    if repo not in _top_known:
        _top_known[repo] = tuple(_find_top_level(repo))
    return _top_known[repo]


def _find_top_level(repo: Any) -> list[str]:  # noqa: ANN401
    from dvc.repo.experiments.executor.base import BaseExecutor

    collect = getattr(BaseExecutor, "_get_top_level_paths", None)  # not in 2.31
    paths = collect(repo) if collect else []
    return [os.path.abspath(os.path.join(repo.root_dir, path)) for path in paths]


def view_pipeline(stage: Any, *, running: bool) -> PipelineView | None:  # noqa: ANN401
    """Read ``stage`` and what is around it.

    Args:
        stage: DVC's ``Stage``.
        running: Whether its command is about to run, so that its lock entry is needed.

    Returns:
        The view, or None for a stage without a lock entry (a ``.dvc`` file).
    """
    root = os.path.abspath(str(stage.repo.scm.root_dir))
    view = _view(stage, root, with_entry=running)
    if view is None:
        return None
    return PipelineView(
        git_root=root,
        stage=view,
        related=_around(stage, root),
        top_level=_top_level(stage.repo),
    )


def command_returncode(error: BaseException | None) -> int | None:
    """Return the return code of the stage command that ``error`` reports, or None.

    DVC's ``StageCmdFailedError`` has it in its text only, the same in all versions seen.
    """
    found = re.search(r"exited with (-?\d+)$", str(error or ""))
    return int(found.group(1)) if found else None


def root_of(stage: Any) -> str:  # noqa: ANN401
    """Return the DVC project folder that ``stage`` runs in."""
    return os.path.abspath(str(stage.repo.root_dir))


def native_signal_file(stage: Any) -> str | None:  # noqa: ANN401
    """Return the file by which a command asks DVC 2 for a checkpoint, None where nobody looks."""
    if not getattr(stage, "is_checkpoint", False):
        return None
    return os.path.join(os.path.abspath(stage.repo.tmp_dir), "DVC_CHECKPOINT")
