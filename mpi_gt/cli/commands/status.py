"""`mpi-gt status`: one line per run, or the same for machines."""

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from . import RESULTS, Command

if TYPE_CHECKING:
    from ..parser import Parser

HELP = """\
Show how runs are doing: status, iteration, gap, time left, last checkpoint.

examples:
  mpi-gt status runs/a
  mpi-gt status runs/*
  mpi-gt status --check runs/*           exit code 1 if a run has failed
  mpi-gt status --json runs/a            for a script: jq '.runs[0].gap'
  mpi-gt status --openmetrics runs/*     for Prometheus (textfile collector of a node exporter)
"""
EPILOG = """\
`mpi-gt manual results` lists the keys of the JSON and the metrics, with their units.
"""


def _add_arguments(parser: "Parser") -> None:
    parser.add_argument("directories", nargs="+", metavar="DIR", help="run directories")
    parser.add_argument("--json", dest="as_json", action="store_true", help="print JSON")
    parser.add_argument(
        "--openmetrics", action="store_true", help="print OpenMetrics text, for Prometheus"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit with 1 if a run, or a point of a sweep, has failed, diverged or gone stale "
        "(a diverged point of a sweep is a result, no failure)",
    )


def status(
    directories: list[str], as_json: bool = False, openmetrics: bool = False, check: bool = False
) -> int:
    """Show how runs are doing; return the exit code."""
    from ...display.openmetrics import openmetrics as openmetrics_text
    from ...display.runs import show_states
    from ...rundir.run_state import read_state

    if as_json and openmetrics:
        raise UserError("--json and --openmetrics are two forms of the output: give one of them")
    # a directory that is named twice would be two samples of one metric
    states = [read_state(path) for path in dict.fromkeys(map(Path, directories))]
    if as_json:
        from dataclasses import asdict

        from ...files import json_text

        print(json_text("status", {"runs": [asdict(state) for state in states]}))
    elif openmetrics:
        print(openmetrics_text(states))
    else:
        show_states(states)
    return 1 if check and any(state.is_failed for state in states) else 0


STATUS = Command(
    name="status",
    group=RESULTS,
    summary="show how runs are doing",
    help=HELP,
    epilog=EPILOG,
    add_arguments=_add_arguments,
    alone=status,
)
