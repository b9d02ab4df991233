"""What the tests share: projects with real processes, and readings of `dvc exp show`."""

from digits.build import installed_dvc

from support.project import Project, Started, wait_for
from support.table import Row, flatten

DVC_VERSION = installed_dvc()

__all__ = ["DVC_VERSION", "Project", "Row", "Started", "flatten", "wait_for"]
