"""What is known of runs outside Git: records, leases, receipts, below ``.dvc/tmp/ckpt-recover``."""

from dvc_ckpt_recover.runs.lease import Lease
from dvc_ckpt_recover.runs.places import Places, run_id_of
from dvc_ckpt_recover.runs.process import ProcessId
from dvc_ckpt_recover.runs.record import (
    Ended,
    Mode,
    RunRecord,
    find_record,
    load_all,
    load_record,
)

__all__ = [
    "Ended",
    "Lease",
    "Mode",
    "Places",
    "ProcessId",
    "RunRecord",
    "find_record",
    "load_all",
    "load_record",
    "run_id_of",
]
