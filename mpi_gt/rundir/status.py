"""The status of a run, from its directory alone, also if its processes were killed."""

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import Any

from ..algorithms import short_name
from ..errors import STUCK_EXIT_CODE, Diverged, UserError
from .checkpoint import SLOTS, glance, latest, part_path
from .layout import POINTS
from .lock import claim
from .metrics_csv import is_number, read_last_row, read_last_rows
from .run_directory import is_held
from .run_json import (
    mark_failed,
    planned_iterations,
    read_facts,
    require_facts,
    resume_hint,
)
from .watchdog_reports import read_reports

STALE = 600  # seconds without a write after which a run that measures often is stale


def status_row(path: Path) -> dict[str, str]:
    """Return one line of `mpi-gt status`, by column."""
    facts = require_facts(path, ("config.iterations",))
    if not facts:
        raise UserError(f"{path} holds no run: there is no run.json to read")
    status, note = read_status(path, facts)
    if status == "failed" and facts.get("status") == "running":
        record_failure(path, facts, note)
    if "grid" in facts:
        return {"run": str(path), "status": status, **_sweep_columns(path, facts), "note": note}
    saved = latest(path)
    last = read_last_row(path)
    labels = list(facts.get("identity", {}).get("algorithm", {}))
    planned = planned_iterations(facts, last.get("algorithm"))
    shown = f"{last.get('iteration', 0)}/{planned}"
    number = labels.index(last["algorithm"]) + 1 if last.get("algorithm") in labels else 0
    if len(labels) > 1:
        shown = f"{short_name(last.get('algorithm', '-'))} {shown} ({number} of {len(labels)})"
    return {
        "run": str(path),
        "status": status,
        "iteration": shown,
        "gap": f"{float(last['gap']):.3e}" if is_number(last.get("gap")) else "-",
        "left": time_left(status, last, planned, len(labels) - number),
        "checkpoint": f"{short_name(saved['algorithm'])}, {saved['iteration']}" if saved else "-",
        "note": note,
    }


def _sweep_columns(path: Path, facts: dict[str, Any]) -> dict[str, str]:
    """Return the columns of a sweep: how many of its points are done."""
    return {"iteration": points_done(path, facts), "gap": "-", "left": "-", "checkpoint": "-"}


def points_done(path: Path, facts: dict[str, Any]) -> str:
    """Return how many points of a sweep are done, "3 of 18 points"."""
    names = facts["grid"]["points"]
    runs = [read_facts(path / POINTS / name) for name in names]
    done = sum(each.get("exit_code") in (0, Diverged.exit_code) for each in runs)
    return f"{done} of {len(names)} points"


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
    here = process.get("host") == socket.gethostname()
    held = is_held(path)
    alive = held or (here and held is None and _is_alive(process.get("pid", 0)))
    if not alive and (here or held is False):
        return "failed", f"its processes ended without an error message{resume_hint(path)}"
    silence = time.time() - _last_write(path)
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
    if process.get("host") != socket.gethostname() or _is_alive(process.get("pid", 0)):
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
    if (saved := _saved_iteration(path)) is not None:
        kept.append(f"the checkpoint of iteration {saved}")
    if (path / "final.npz").exists():
        kept.append("final.npz")
    return f"; kept in {path}: {', '.join(kept)}" if kept else ""


def _saved_iteration(path: Path) -> int | None:
    """Return the iteration of the newest checkpoint with the parts of all nodes, not verified."""
    saved = []
    for slot in range(len(SLOTS)):
        nodes = glance(part_path(path, slot, 0)).get("nodes", 0)
        parts = [glance(part_path(path, slot, node)) for node in range(nodes)]
        places = {(part.get("algorithm"), part.get("iteration")) for part in parts}
        if len(places) == 1 and parts[0].get("iteration") is not None:
            saved.append((parts[0].get("saved", 0.0), parts[0]["iteration"]))
    return max(saved)[1] if saved else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return pid > 0


def _last_write(path: Path) -> float:
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


def time_left(status: str, last: dict[str, str], iterations: int, behind: int) -> str:
    """Return the time left at the pace so far, for display.

    Each of the `behind` algorithms that are yet to come is assumed to take as long as this one.
    """
    done = int(last.get("iteration") or 0)
    if status != "running" or not done:
        return "-"
    per_iteration = float(last["seconds"]) / done
    left = per_iteration * (iterations * (1 + max(0, behind)) - done)
    return f"{left:.0f} s" if left < 600 else f"{left / 60:.0f} min"
