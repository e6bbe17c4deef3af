"""Files of the watchdog: a report per rank that waited too long, and a sign of ranks that work.

A rank that works for long outside of the iterations (it prepares data, draws figures) changes the
sign from time to time. As long as it changes, ranks and front end wait for that rank.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import COUNT, TEXT, read_table
from .layout import SIGN, WATCHDOG

REPORT = {"waits": COUNT, "node": COUNT, "text": TEXT}

WATCH = "MPI_GT_WATCH"
"""The variable that tells ranks the limit and the run directory before root has parsed."""


def forget_reports(directory: Path) -> None:
    """Remove the files of an earlier run, lest they be taken for those of the new one."""
    for path in (*(directory / WATCHDOG).glob("node-*.json"), directory / SIGN):
        path.unlink(missing_ok=True)


def read_reports(directory: Path | None) -> list[dict[str, Any]]:
    """Return the reports of all ranks, the one that was stuck first in front.

    The others may only have waited for a rank that was stuck itself.
    """
    reports = []
    for path in sorted((directory / WATCHDOG).glob("node-*.json")) if directory is not None else ():
        with contextlib.suppress(UserError):
            reports.append(read_table(path, REPORT, REPORT))
    return sorted(reports, key=lambda report: (report["waits"], report["node"]))


def show_sign(directory: Path | None) -> None:
    """Change the sign of life."""
    if directory is not None:
        with contextlib.suppress(OSError):
            (directory / WATCHDOG).mkdir(exist_ok=True)
            (directory / SIGN).write_text(f"{os.uname().nodename} {os.getpid()} {time.time_ns()}")


def read_sign(directory: Path | None) -> str:
    """Return the sign of life, which changes while a rank works; empty without any."""
    try:
        return "" if directory is None else (directory / SIGN).read_text()
    except (OSError, ValueError):
        return ""


def remove_sign(directory: Path | None) -> None:
    """Remove the sign of life at the end of a run, and the folder if it is then empty."""
    if directory is not None:
        with contextlib.suppress(OSError):
            (directory / SIGN).unlink()
            (directory / WATCHDOG).rmdir()
