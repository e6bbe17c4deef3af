"""`mpi-gt report`: one HTML page about run directories."""

from pathlib import Path
from typing import TYPE_CHECKING

from . import RESULTS, Command

if TYPE_CHECKING:
    from ..parser import Parser

HELP = """\
Write one HTML page about run directories: curves, a table to sort, graphs, profiles, benches and
claims. The page is one file that needs no network, so it can be sent to others. A colour is a
method, a line style a directory; its switches choose metric, x axis, scale and curves, and save
these as CSV. `mpi-gt watch DIR --web` shows the same page of a run that goes on.

examples:
  mpi-gt report runs/a
  mpi-gt report runs/a runs/b runs/my-bench -o report.html     several on one page
  mpi-gt report runs                                           all directories in runs
"""


def _add_arguments(parser: "Parser") -> None:
    from ..parser import add_options

    parser.add_argument("directories", nargs="+", metavar="DIR", help="run directories")
    parser.add_argument(
        "-o", "--out", metavar="FILE.html", help="file of the page (default report.html)"
    )
    add_options(parser, "--quiet")


def report(directories: list[str], out: str = "report.html", quiet: bool = False) -> int:
    """Write the page; return the exit code."""
    from ...report.page import write_page

    size = write_page([Path(directory) for directory in directories], Path(out))
    if not quiet:
        print(f"wrote {out} ({size / 1e6:.1f} MB)")
    return 0


REPORT = Command(
    name="report",
    group=RESULTS,
    summary="write one HTML page about runs",
    help=HELP,
    add_arguments=_add_arguments,
    alone=report,
)
