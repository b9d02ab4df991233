"""Files that survive a crash: written aside, synced, renamed; locks that the kernel frees."""

from dvc_ckpt_recover.durable.files import (
    make_private_dir,
    read_json,
    remove_file,
    write_bytes,
    write_json,
)
from dvc_ckpt_recover.durable.sync import sync_dir, sync_dirs_up, sync_file, sync_files

__all__ = [
    "make_private_dir",
    "read_json",
    "remove_file",
    "sync_dir",
    "sync_dirs_up",
    "sync_file",
    "sync_files",
    "write_bytes",
    "write_json",
]
