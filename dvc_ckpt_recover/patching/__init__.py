"""Wrap attributes of modules that are not imported yet, by name and without a framework."""

from dvc_ckpt_recover.patching.points import Binding, Call, Handler, Outcome, Point, Steps, bind
from dvc_ckpt_recover.patching.watcher import ImportWatcher

__all__ = ["Binding", "Call", "Handler", "ImportWatcher", "Outcome", "Point", "Steps", "bind"]
