"""Files of the watchdog: reports of ranks that waited too long, and a sign of ranks that work.

Of thousands of ranks that wait for one of them, only some write a report: those that are first
to give up, and those that were stuck before all who have. Each of the others sets a byte of the
file `stuck`, lest it be taken for a silent one.

A rank that works for long outside of the iterations (it prepares data, draws figures) changes the
sign from time to time. As long as it changes, ranks and front end wait for that rank.
"""

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import StorageError, UserError
from ..files import COUNT, TEXT, read_table
from .atomic import write_json
from .layout import SIGN, STUCK, WATCHDOG

REPORTS = 64  # of ranks that were not stuck before all others

REPORT = {"waits": COUNT, "node": COUNT, "text": TEXT}

WATCH = "MPI_GT_WATCH"
"""The variable that tells ranks the limit and the run directory before root has parsed."""


def forget_reports(directory: Path) -> None:
    """Remove the files of an earlier run, lest they be taken for those of the new one."""
    found = (directory / WATCHDOG).glob("node-*.json")
    for path in (*found, directory / STUCK, directory / SIGN):
        path.unlink(missing_ok=True)


def read_reports(directory: Path | None) -> list[dict[str, Any]]:
    """Return the reports of all ranks, the one that was stuck first in front.

    The others may only have waited for a rank that was stuck itself.
    """
    reports = []
    for path in sorted((directory / WATCHDOG).glob("node-*.json")) if directory is not None else ():
        with contextlib.suppress(UserError):
            reports.append(read_table(path, REPORT, REPORT))
    return sorted(reports, key=_rank_of)


def _rank_of(report: Mapping[str, Any]) -> tuple[int, int]:
    return report["waits"], report["node"]


def has_reports(directory: Path | None) -> bool:
    """Return whether a rank has given up; it reads no file."""
    return directory is not None and any(True for _ in (directory / WATCHDOG).glob("node-*.json"))


def send_stuck(directory: Path, report: Mapping[str, Any]) -> None:
    """Count a rank among the stuck ones, and write its report if that may tell something new."""
    node = report["node"]
    with contextlib.suppress(OSError, StorageError):
        (directory / WATCHDOG).mkdir(exist_ok=True)
        file = os.open(directory / STUCK, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            os.pwrite(file, b"\1", node)
        finally:
            os.close(file)
    others = read_reports(directory)
    if len(others) < REPORTS or _rank_of(report) < _rank_of(others[0]):
        write_report(directory, report)


def write_report(directory: Path, report: Mapping[str, Any]) -> None:
    """Write the report of a rank, if there is room for it."""
    with contextlib.suppress(OSError, StorageError):
        write_json(directory / WATCHDOG / f"node-{report['node']:05d}.json", dict(report))


def read_stuck(directory: Path | None) -> set[int]:
    """Return the ranks that are stuck, those without a report included."""
    try:
        marks = b"" if directory is None else (directory / STUCK).read_bytes()
    except OSError:
        marks = b""
    return {node for node, mark in enumerate(marks) if mark}


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
