"""rundir.watchdog_reports."""

import contextlib
import json
from pathlib import Path
from typing import Any

from .layout import WATCHDOG


def forget_reports(directory: Path) -> None:
    """Those of an earlier run, before a new one starts: they would be taken for its own."""
    for path in (directory / WATCHDOG).glob("node-*.json"):
        path.unlink(missing_ok=True)


def read_reports(directory: Path | None) -> list[dict[str, Any]]:
    """All ranks' reports, first that of who was stuck first: the others waited for its like."""
    reports = []
    for path in sorted((directory / WATCHDOG).glob("node-*.json")) if directory is not None else ():
        with contextlib.suppress(OSError, ValueError):
            reports.append(json.loads(path.read_text(encoding="utf-8")))
    return sorted(reports, key=lambda report: (report["waits"], report["node"]))
