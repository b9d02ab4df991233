"""What runs in the training process; it imports neither DVC nor the rest of this package."""

from dvc_ckpt_recover.trainer.client import make_checkpoint

__all__ = ["make_checkpoint"]
