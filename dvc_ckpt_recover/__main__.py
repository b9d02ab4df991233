"""``python -m dvc_ckpt_recover``: status, doctor, checkpoint, selftest."""

import sys

from dvc_ckpt_recover.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
