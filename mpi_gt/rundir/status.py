"""The status of a run, from its directory alone, also if its processes were killed."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from ..errors import STUCK_EXIT_CODE, UserError
from .checkpoint_files import saved_iteration
from .lock import claim
from .metrics_csv import read_last_row, read_last_rows
from .run_directory import is_held
from .run_json import mark_failed, read_facts, resume_hint
from .watchdog_reports import read_reports

STALE = 600  # seconds without a write after which a run that measures often is stale


def read_status(path: Path, facts: dict[str, Any]) -> tuple[str, str]:
    """Return running, finished, stopped, failed or stale, and a note for the user."""
    status = facts.get("status", "failed")
    if status == "stopped":
        return status, resume_hint(path).removeprefix("; ")
    if status == "failed":
        return status, f"{facts.get('error', 'no reason was recorded')}{resume_hint(path)}"
    if status != "running":
        return status, ""
    reports = read_reports(path)
    if reports:
        return "failed", f"{reports[0]['text']}{resume_hint(path)}"
    process = facts.get("process", {})
    here = process.get("host") == os.uname().nodename
    held = is_held(path)
    alive = held or (here and held is None and _is_alive(process.get("pid", 0)))
    if not alive and (here or held is False):
        return "failed", f"its processes ended without an error message{resume_hint(path)}"
    silence = time.time() - last_write(path)
    note = f"on {process.get('host')}; last written to {silence / 60:.0f} minutes ago"
    if silence > max(STALE, 10 * _usual_silence(path)):
        return "stale", note + ("; its processes are alive" if alive else "")
    return status, "" if alive else note


def record_failure(path: Path, facts: dict[str, Any], why: str) -> None:
    """Write to run.json that a run has failed whose process on this host is provably gone.

    Nothing is written if the directory cannot be claimed: another process is using it by now, or
    may not write there.
    """
    process = facts.get("process", {})
    if process.get("host") != os.uname().nodename or _is_alive(process.get("pid", 0)):
        return
    with contextlib.suppress(UserError), claim(path):
        if read_facts(path).get("process") == process:
            code = STUCK_EXIT_CODE if read_reports(path) else 1
            mark_failed(path, why.removesuffix(resume_hint(path)), code)


def kept_results(path: Path) -> str:
    """Return the end of a message: what a run that has failed leaves; empty if that is nothing."""
    kept = []
    if last := read_last_row(path):
        kept.append(f"metrics.csv up to {last['algorithm']}, iteration {last['iteration']}")
    if (saved := saved_iteration(path)) is not None:
        kept.append(f"the checkpoint of iteration {saved}")
    if (path / "final.npz").exists():
        kept.append("final.npz")
    return f"; kept in {path}: {', '.join(kept)}" if kept else ""


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return pid > 0


def last_write(path: Path) -> float:
    """Return the time of the last write to run.json or metrics.csv."""
    files = [path / name for name in ("run.json", "metrics.csv")]
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)


def _usual_silence(path: Path) -> float:
    """Return the seconds between the last two measurements; 0 if there are not two."""
    moments = [(row.get("iteration"), row.get("seconds")) for row in read_last_rows(path)]
    with contextlib.suppress(ValueError, TypeError):
        # dict.fromkeys keeps one row per iteration: all seeds of it have the same seconds
        *_, (_, before), (_, last) = dict.fromkeys(moments)
        return float(last or 0) - float(before or 0)
    return 0.0
