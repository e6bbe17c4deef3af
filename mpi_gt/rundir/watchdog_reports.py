"""Reports of the watchdog: one JSON file per rank that waited too long."""

import contextlib
import json
from pathlib import Path
from typing import Any

from .layout import WATCHDOG


def forget_reports(directory: Path) -> None:
    """Remove the reports of an earlier run, lest they be taken for those of the new one."""
    for path in (directory / WATCHDOG).glob("node-*.json"):
        path.unlink(missing_ok=True)


def read_reports(directory: Path | None) -> list[dict[str, Any]]:
    """Return the reports of all ranks, the one that was stuck first in front.

    The others may only have waited for a rank that was stuck itself.
    """
    reports = []
    for path in sorted((directory / WATCHDOG).glob("node-*.json")) if directory is not None else ():
        with contextlib.suppress(OSError, ValueError):
            reports.append(json.loads(path.read_text(encoding="utf-8")))
    return sorted(reports, key=lambda report: (report["waits"], report["node"]))
