"""`mpi-gt status`: one line per run."""

from pathlib import Path
from typing import TYPE_CHECKING

from . import RESULTS, Command

if TYPE_CHECKING:
    from ..parser import Parser

HELP = """\
Show how runs are doing: status, iteration, gap, time left, last checkpoint.

examples:
  mpi-gt status runs/a
  mpi-gt status runs/*
"""


def _add_arguments(parser: "Parser") -> None:
    parser.add_argument("directories", nargs="+", metavar="DIR", help="run directories")


def status(directories: list[str]) -> int:
    """Show one line per run; return the exit code."""
    from ...display.results import show_runs
    from ...rundir.status import status_row

    show_runs([status_row(Path(directory)) for directory in directories])
    return 0


STATUS = Command(
    name="status",
    group=RESULTS,
    summary="show how runs are doing",
    help=HELP,
    add_arguments=_add_arguments,
    alone=status,
)
