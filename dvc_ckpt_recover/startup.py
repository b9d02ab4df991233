"""The gate: one entry on ``sys.meta_path`` that does nothing until DVC is imported.

In the process of a stage (which has an address to ask for checkpoints) DVCLive counts too.

Failure rule: whatever goes wrong here costs one line on stderr, never the user's program.
"""

import os
import sys

TYPE_CHECKING = False  # importing typing costs a millisecond
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


class Gate:
    """A meta path finder that finds nothing; the first import of a name activates our part."""

    waiting = {"dvc"}  # noqa: RUF012 - typing.ClassVar would have to be imported

    @classmethod
    def find_spec(
        cls,
        name: "str",
        path: "Sequence[str] | None" = None,  # noqa: ARG003
        target: "ModuleType | None" = None,  # noqa: ARG003
    ) -> "None":
        """Act on the first import of ``dvc`` or ``dvclive``; leave finding it to the others."""
        if name in cls.waiting:
            cls.waiting.discard(name)
            if not cls.waiting:
                disarm()
            try:
                if name == "dvc":
                    from dvc_ckpt_recover.activation import activate

                    activate()
                else:
                    from dvc_ckpt_recover.activation.training import watch_live

                    watch_live()
            except Exception as exc:  # noqa: BLE001
                sys.stderr.write(f"dvc_ckpt_recover is off in this process: {exc!r}\n")


def arm() -> "None":
    """Wait for the import of DVC, unless ``DVC_CKPT_RECOVER=0``."""
    if os.environ.get("DVC_CKPT_RECOVER") != "0" and Gate not in sys.meta_path:
        Gate.waiting = {"dvc"}
        if "DVC_CKPT_RECOVER_ADDRESS" in os.environ:
            Gate.waiting.add("dvclive")
        sys.meta_path.insert(0, Gate)


def disarm() -> "None":
    """Take the gate down; without effect when it is not up."""
    if Gate in sys.meta_path:
        sys.meta_path.remove(Gate)
