"""The state of a run in numbers: how far it is, how fast, and how it ended."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import Diverged, UserError
from .checkpoint_files import latest
from .layout import POINTS
from .metrics_csv import is_number, read_last_measurements
from .run_json import planned_iterations, read_facts, require_facts
from .status import last_write, read_status, record_failure

FAILED = ("failed", "stale")
"""The states of runs that need somebody to look at them."""


@dataclass(frozen=True)
class Points:
    """The points of a sweep: how many are done (finished or diverged), have failed, and exist."""

    done: int
    failed: int
    total: int


@dataclass(frozen=True)
class RunState:
    """A run as its files show it now. What is not known is None."""

    run: str  # the directory
    status: str
    note: str
    error: str | None = None
    exit_code: int | None = None
    started: str | None = None
    finished: str | None = None
    written: float | None = None  # the last write, in seconds since 1970
    ranks: int | None = None
    algorithms: tuple[str, ...] = ()  # in the order in which they run
    algorithm: str | None = None  # of the last measurement, as are all of the following
    iteration: int = 0
    iterations: int | None = None  # planned for that algorithm
    gap: float | None = None  # mean over seeds; None as well if it is not finite
    seconds: float | None = None  # in the iterations of that algorithm
    bytes_sent: int | None = None  # by all nodes, for all seeds, in that algorithm
    iterations_per_second: float | None = None  # between the last two measurements
    seconds_left: float | None = None  # of the whole run, at the mean pace so far
    checkpoint: dict[str, Any] | None = None  # algorithm and iteration
    points: Points | None = None  # of a sweep, which has none of the measurements

    @property
    def is_failed(self) -> bool:
        """Return whether the run, or a point of the sweep, has failed, diverged or gone stale."""
        return self.status in FAILED or (self.points is not None and self.points.failed > 0)


def read_state(path: Path) -> RunState:
    """Return the state of the run in a directory; raise UserError if there is none.

    A run that provably died without saying so is marked as failed in its run.json.
    """
    facts = require_facts(path, ("config.iterations",))
    if not facts:
        raise UserError(f"{path} holds no run: there is no run.json to read")
    status, note = read_status(path, facts)
    if status == "failed" and facts.get("status") == "running":
        record_failure(path, facts, note)
        facts = read_facts(path) or facts
    common: dict[str, Any] = {
        "run": str(path),
        "status": status,
        "note": note,
        **{name: facts.get(name) for name in ("error", "exit_code", "started", "finished")},
        "written": last_write(path) or None,
        "ranks": len(facts.get("hosts", ())) or facts["config"].get("n"),
    }
    if "grid" in facts:
        return RunState(**common, points=count_points(path, facts))
    return RunState(**common, **_measured(path, facts, status))


def count_points(path: Path, facts: Mapping[str, Any]) -> Points:
    """Count the points of a sweep."""
    names = facts["grid"]["points"]
    codes = [read_facts(path / POINTS / name).get("exit_code") for name in names]
    done = [code in (0, Diverged.exit_code) for code in codes]
    failed = sum(
        read_facts(path / POINTS / name).get("status") == "failed"
        for name, over in zip(names, done, strict=True)
        if not over
    )
    return Points(sum(done), failed, len(names))


def _measured(path: Path, facts: dict[str, Any], status: str) -> dict[str, Any]:
    """Return the fields of a RunState that metrics.csv and the checkpoints tell."""
    before, last = read_last_measurements(path, facts["config"].get("seeds", 1))
    labels = tuple(facts.get("identity", {}).get("algorithm", {}))
    algorithm = last[0]["algorithm"] if last else None
    planned = planned_iterations(facts, algorithm)
    saved = latest(path)
    found: dict[str, Any] = {
        "algorithms": labels,
        "algorithm": algorithm,
        "iterations": planned,
        "checkpoint": {name: saved[name] for name in ("algorithm", "iteration")} if saved else None,
    }
    if not last:
        return found
    iteration, seconds = int(last[0]["iteration"]), float(last[0]["seconds"])
    behind = len(labels) - labels.index(algorithm) - 1 if algorithm in labels else len(labels)
    sent = last[0].get("bytes")
    return {
        **found,
        "iteration": iteration,
        "gap": _mean([row.get("gap") for row in last]),
        "seconds": seconds if math.isfinite(seconds) else None,
        "bytes_sent": int(sent or 0) * facts["config"].get("seeds", 1)
        if is_number(sent, int)
        else None,
        "iterations_per_second": _rate(before, last),
        "seconds_left": seconds_left(status, iteration, seconds, planned, behind),
    }


def _mean(cells: Sequence[str | None]) -> float | None:
    """Return the mean of the cells; None if one is no finite number."""
    numbers = [float(cell or "") for cell in cells if is_number(cell)]
    mean = math.fsum(numbers) / len(numbers) if len(numbers) == len(cells) else math.nan
    return mean if math.isfinite(mean) else None


def _rate(before: Sequence[Mapping[str, str]], last: Sequence[Mapping[str, str]]) -> float | None:
    """Return the iterations per second between two measurements, or from the start to one."""
    done, seconds = int(last[0]["iteration"]), float(last[0]["seconds"])
    if before and before[0]["algorithm"] == last[0]["algorithm"]:
        done -= int(before[0]["iteration"])
        seconds -= float(before[0]["seconds"])
    return done / seconds if done > 0 and 0 < seconds < math.inf else None


def seconds_left(
    status: str, done: int, seconds: float, iterations: int, behind: int
) -> float | None:
    """Return the seconds left of a running run at its mean pace; None if that is not known.

    Each of the `behind` algorithms that are yet to come is assumed to take as long as this one.
    """
    if status != "running" or not done or not math.isfinite(seconds):
        return None
    return seconds / done * (iterations * (1 + max(0, behind)) - done)
