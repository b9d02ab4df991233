"""When a run ended: hold, salvage, close, transfer, verify, publish, receipt, remove.

Each step can be repeated, and the pipeline may be killed between any two of them.
"""

from dvc_ckpt_recover.recovery.ending import Ending
from dvc_ckpt_recover.recovery.pipeline import Evidence, end_run, keep, settle

__all__ = ["Ending", "Evidence", "end_run", "keep", "settle"]
