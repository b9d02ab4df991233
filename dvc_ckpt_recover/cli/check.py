"""``dvc exp recover --check``: find and repair what a power cut or a bad disk left.

Failure rule: exit 3 when something is damaged and could not be repaired.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from dvc_ckpt_recover.dvc_api import executors, remote
from dvc_ckpt_recover.dvc_api.cache import Cache
from dvc_ckpt_recover.dvc_api.commands import with_progress, write
from dvc_ckpt_recover.dvc_api.project import write_line
from dvc_ckpt_recover.errors import DamagedError, RefusedError
from dvc_ckpt_recover.recovery.check import Check
from dvc_ckpt_recover.runs import Places

if TYPE_CHECKING:
    import argparse


def run(repo: Any, args: argparse.Namespace) -> int:  # noqa: ANN401
    """Check the project of ``repo`` and return the exit code.

    Raises:
        RefusedError: The project is not in a Git repository.
    """
    root = executors.main_root_of(repo)
    if root is None:
        raise RefusedError("this DVC project has no Git repository, so it has no experiments")
    cache = Cache(repo)

    def mend(oid: str, hash_name: str) -> None:
        remote.mend(repo, cache, [oid], hash_name)

    check = Check(Places(str(repo.tmp_dir)), root, cache, mend)
    found = check.run(partial(with_progress, what="Checking"))
    left = [finding for finding in found if not finding.is_repaired]
    if args.json:
        write(json.dumps({"found": [asdict(finding) for finding in found]}, indent=1))
        return DamagedError.exit_code if left else 0
    for finding in found:
        if finding.is_repaired:
            write(f"Repaired {finding.what}: {finding.detail}")
        else:
            write_line(f"ERROR: {finding.what}: {finding.detail}")
    write(f"{len(found)} found, {len(found) - len(left)} repaired." if found else "All is whole.")
    return DamagedError.exit_code if left else 0
