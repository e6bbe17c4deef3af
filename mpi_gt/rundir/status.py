"""How a run is doing, told from its directory: the truth, also where nobody could write it."""

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import Any

from ..errors import UserError
from .checkpoint import latest
from .metrics_csv import read_last_row, read_last_rows
from .run_directory import is_held
from .run_json import read_facts
from .watchdog_reports import read_reports

STALE = 600  # seconds without a sign after which a run that measures often is called stale


def status_row(path: Path) -> dict[str, str]:
    """One line of `mpi-gt status`."""
    facts = read_facts(path)
    if "config" not in facts:
        raise UserError(f"{path} holds no run: there is no run.json to read")
    status, note = read_status(path, facts)
    config = facts["config"]
    saved = latest(path)
    last = read_last_row(path)
    labels = list(facts.get("identity", {}).get("algorithm", {}))
    shown = f"{last.get('iteration', 0)}/{config['iterations']}"
    number = labels.index(last["algorithm"]) + 1 if last.get("algorithm") in labels else 0
    if len(labels) > 1:
        shown = f"{last.get('algorithm', '-')} {shown} ({number} of {len(labels)})"
    return {
        "run": str(path),
        "status": status,
        "iteration": shown,
        "gap": f"{float(last['gap']):.3e}" if last.get("gap") else "-",
        "left": time_left(status, last, config, len(labels) - number),
        "checkpoint": f"{saved['algorithm']} {saved['iteration']}" if saved else "-",
        "note": note,
    }


def read_status(path: Path, facts: dict[str, Any]) -> tuple[str, str]:
    """running, finished, stopped, failed or stale; and what else there is to say."""
    status = facts.get("status", "failed")
    go_on = f"to go on: mpi-gt resume {path}"
    if status == "stopped":
        return status, go_on
    if status == "failed":
        return status, f"{facts.get('error', 'no reason was written')}; {go_on}"
    if status != "running":
        return status, ""
    reports = read_reports(path)
    if reports:
        return "failed", f"{reports[0]['text']}; {go_on}"
    process = facts.get("process", {})
    here = process.get("host") == socket.gethostname()
    held = is_held(path)
    alive = held or (here and held is None and _is_alive(process.get("pid", 0)))
    if not alive and (here or held is False):
        return "failed", f"its processes are gone without a word; {go_on}"
    silence = time.time() - _last_sign(path)
    sign = f"on {process.get('host')}; its last sign was {silence / 60:.0f} minutes ago"
    if silence > max(STALE, 10 * _usual_silence(path)):
        return "stale", sign + ("; its processes are there" if alive else "")
    return status, "" if alive else sign


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return pid > 0


def _last_sign(path: Path) -> float:
    files = [path / name for name in ("run.json", "metrics.csv")]
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)


def _usual_silence(path: Path) -> float:
    """Seconds from one measurement to the next; 0 where two cannot be told."""
    moments = [(row.get("iteration"), row.get("seconds")) for row in read_last_rows(path)]
    with contextlib.suppress(ValueError, TypeError):
        *_, (_, before), (_, last) = dict.fromkeys(moments)  # one for all seeds of an iteration
        return float(last or 0) - float(before or 0)
    return 0.0


def time_left(status: str, last: dict[str, str], config: dict[str, Any], behind: int) -> str:
    """At the pace so far; algorithms that are yet to come count as long as this one."""
    done = int(last.get("iteration") or 0)
    if status != "running" or not done:
        return "-"
    each = float(last["seconds"]) / done
    left = each * (config["iterations"] * (1 + max(0, behind)) - done)
    return f"{left:.0f} s" if left < 600 else f"{left / 60:.0f} min"
