"""Keep what an interrupted DVC experiment finished, show it as Partial, go on from it.

Importing this package imports nothing else: it happens at every Python start.
"""

__version__ = "0.1.0"
__all__ = ["make_checkpoint"]


def __getattr__(name: str) -> object:
    """Load the trainer's side on first use, so that a plain start stays fast."""
    if name == "make_checkpoint":
        from dvc_ckpt_recover.trainer import make_checkpoint

        return make_checkpoint
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
