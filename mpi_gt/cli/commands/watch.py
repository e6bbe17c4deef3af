"""`mpi-gt watch`: follow a run from another terminal. Only reads its files."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...display.console import console, on_terminal
from ...errors import UserError
from ...rundir.layout import POINTS
from ...rundir.run_json import (
    is_sweep,
    planned_iterations,
    read_facts,
    read_profile,
    require_facts,
)
from ...spec import convert
from ..streams import lost_output
from . import RESULTS, Command

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ...rundir.curves import Curve
    from ..parser import Parser

HELP = """\
Follow a run live from another terminal: iteration and time left, loss and gap with a small curve,
pace, last checkpoint. Of a sweep it shows the present point, and how many are done. Only reads the
run's files. Ctrl-C ends the view, not the run.

examples:
  mpi-gt watch runs/a
  mpi-gt watch runs/a --once                    print it once
  ssh cluster mpi-gt watch work/runs/a --every 10
  mpi-gt watch runs/a --web                     the report page in a browser, updated live
  mpi-gt watch runs/a --web --port 8800         at a port of your choice

--web shows an address that only this computer answers to, and only to those who have all of it.
For a browser on another computer it also shows the ssh tunnel to type there. The page follows the
run by itself; it ends with the run or on Ctrl-C, and an open tab keeps the last state.
"""
RECENT = 10  # measurements that the present pace is taken from
WIDTH = 60  # characters of the curve
BLOCKS = "▁▂▃▄▅▆▇█"
STYLES = {"running": "cyan", "finished": "green", "stopped": "yellow", "stale": "yellow"}


@dataclass(frozen=True)
class View:
    """The state of a run at one moment."""

    name: str
    status: str
    note: str
    algorithm: str = "-"
    place: str = ""  # "2 of 3" if there are several algorithms
    iteration: int = 0
    iterations: int = 0
    loss: float | None = None
    gap: float | None = None
    gaps: tuple[float, ...] = ()
    pace: float | None = None  # iterations per second, recently
    left: str = "-"
    checkpoint: str = "-"
    slowest: str = ""
    warnings: tuple[str, ...] = field(default=())

    @property
    def over(self) -> bool:
        return self.status != "running" and self.status != "stale"


def read_view(path: Path) -> View:
    """Return the state of the run in that directory.

    A directory of runs, as `reproduce` makes it, stands for the latest of them. So does that of a
    sweep, which has a status of its own.
    """
    if is_sweep(path):
        return _view_of_sweep(path)
    if not _is_run(path):
        return _view_of_study(path)
    from ...rundir.checkpoint_files import latest
    from ...rundir.curves import read_curves
    from ...rundir.status import read_status

    facts = require_facts(path, ("config.iterations",))
    status, note = read_status(path, facts)
    curves, _ = read_curves(path / "metrics.csv", path.name)
    labels = list(facts.get("identity", {}).get("algorithm", {}))
    saved = latest(path)
    iterations = planned_iterations(facts, curves[-1].algorithm if curves else None)
    view: dict[str, Any] = {
        "name": str(path),
        "status": status,
        "note": note,
        "iterations": iterations,
        "checkpoint": _checkpoint_text(saved) if saved else "-",
        "slowest": _slowest(path),
        "warnings": tuple(map(str, facts.get("warnings", ()))),
    }
    if curves:
        view.update(_latest(curves[-1], labels, status, iterations))
    return View(**view)


def _view_of_study(path: Path) -> View:
    """Return the state of the latest run in a directory of runs.

    It is not over while somebody has claimed the directory: another run follows.
    """
    from ...rundir.lock import is_claimed

    view = read_view(_latest_run(path))
    if view.over and is_claimed(path):
        return replace(view, status="running", note=f"{view.status}; the next run follows")
    return view


def _view_of_sweep(path: Path) -> View:
    """Return the state of the latest point of a sweep, with the status of the whole sweep."""
    from ...display.runs import points_text
    from ...rundir.run_state import count_points
    from ...rundir.status import read_status

    facts = require_facts(path, ("grid",))
    status, note = read_status(path, facts)
    note = f"{points_text(count_points(path, facts))} done" + (f"; {note}" if note else "")
    points = [path / POINTS / name for name in facts["grid"]["points"]]
    begun = [file for point in points if (file := point / "run.json").exists()]
    if not begun:
        return View(str(path), status, note)
    latest = max(begun, key=lambda file: file.stat().st_mtime)
    return replace(read_view(latest.parent), status=status, note=note)


def _latest_run(path: Path) -> Path:
    """Return the run that was written last, of those in a directory and one level below."""
    files = (file for pattern in ("*/run.json", "*/*/run.json") for file in path.glob(pattern))
    inner = [file for file in files if "config" in read_facts(file.parent)]
    if not inner:
        raise UserError(f"{path} holds no run: there is no run.json to read")
    return max(inner, key=lambda file: file.stat().st_mtime).parent


def _is_run(path: Path) -> bool:
    return "config" in require_facts(path)


def _latest(curve: "Curve", labels: Sequence[str], status: str, planned: int) -> dict[str, Any]:
    """Return the fields of a View that the last measurements of an algorithm give."""
    from ...display.runs import time_text
    from ...rundir.run_state import seconds_left

    iterations, seconds = curve.across["iteration"], curve.across["seconds"]
    number = labels.index(curve.algorithm) + 1 if curve.algorithm in labels else len(labels)
    means = {name: values.mean(axis=0) for name, values in curve.metrics.items()}
    span = min(RECENT, curve.points - 1)
    elapsed = float(seconds[-1] - seconds[-1 - span])
    left = seconds_left(
        status, int(iterations[-1]), float(seconds[-1]), planned, len(labels) - number
    )
    return {
        "algorithm": curve.algorithm,
        "place": f"{number} of {len(labels)}" if len(labels) > 1 else "",
        "iteration": int(iterations[-1]),
        "loss": float(means["loss"][-1]) if "loss" in means else None,
        "gap": float(means["gap"][-1]) if "gap" in means else None,
        "gaps": tuple(means["gap"].tolist()) if "gap" in means else (),
        "pace": float(iterations[-1] - iterations[-1 - span]) / elapsed if elapsed > 0 else None,
        "left": time_text(left),
    }


def _checkpoint_text(saved: Mapping[str, Any]) -> str:
    age = time.time() - saved.get("saved", math.nan)
    ago = f", {max(0.0, age):.0f} s ago" if math.isfinite(age) and age < 3600 else ""
    return f"{saved.get('algorithm', '?')} at iteration {saved.get('iteration', '?')}{ago}"


def _slowest(path: Path) -> str:
    """Return which rank has most work of its own, if the run was profiled; else ""."""
    from ...performance.phases import OWN

    try:
        phases = read_profile(path)["phases"]
        times = (phases[name]["by_rank"] for name in OWN if name in phases)
        own = [sum(parts) for parts in zip(*times, strict=True)]
        rank = max(range(len(own)), key=own.__getitem__)
        return f"rank {rank}, {own[rank] * 1e6:,.0f} µs of its own work per iteration"
    except (UserError, ValueError, KeyError):
        return ""


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """Return the values as a row of blocks, on a log scale if all are positive."""
    sound = [value for value in values if math.isfinite(value)]
    if len(sound) < 2:
        return ""
    if min(sound) > 0:
        sound = [math.log(value) for value in sound]
    count = min(len(sound), width)
    shown = [sound[(k + 1) * len(sound) // count - 1] for k in range(count)]
    low, high = min(shown), max(shown)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((value - low) * scale)] for value in shown)


def line_of(view: View) -> str:
    """Return the view as one line, for a file or a pipe."""
    return "  ".join(words_of(view))


def words_of(view: View) -> list[str]:
    """Return the view in few words: status, iteration, gap, pace, time left, note."""
    words = [view.status, view.algorithm, f"{view.iteration}/{view.iterations}"]
    words += [] if view.gap is None else [f"gap {view.gap:.3e}"]
    words += [] if view.pace is None else [f"{view.pace:.1f} iterations/s"]
    words += [f"left {view.left}"] if view.left != "-" else []
    return words + ([view.note] if view.note else [])


def render(view: View) -> "RenderableType":
    """Build the panel for a terminal."""
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from ...algorithms import full_name

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    bar = ProgressBar(total=max(1, view.iterations), completed=view.iteration, width=WIDTH)
    table.add_row("", bar)
    rows: list[tuple[str, str]] = [
        ("algorithm", f"{full_name(view.algorithm)}  {view.place}".strip()),
        ("iteration", f"{view.iteration} of {view.iterations}"),
        ("time left", view.left),
        ("loss", "-" if view.loss is None else f"{view.loss:.6g}"),
        ("gap", "-" if view.gap is None else f"{view.gap:.3e}"),
        ("", sparkline(view.gaps)),
        ("pace", "-" if view.pace is None else f"{view.pace:.1f} iterations/s"),
        ("checkpoint", view.checkpoint),
        ("slowest", view.slowest),
        *(("warning", warning) for warning in view.warnings),
        ("note", view.note),
    ]
    for name, value in rows:
        if value:
            table.add_row(name, Text(value))
    status = Text(view.status, style=STYLES.get(view.status, "red"))
    title = Text.assemble(Text(view.name), "  ", status)
    return Panel(table, title=title, title_align="left")


def watch(
    directory: str,
    once: bool = False,
    every: str = "1",
    web: bool = False,
    port: str | None = None,
) -> int:
    """Show a run until it is over or Ctrl-C is pressed; return the exit code."""
    if web and once:
        raise UserError("--once prints one view, --web follows a run: give one of the two")
    if port is not None and not web:
        raise UserError("--port is the port of --web: give both")
    number = 0 if port is None else convert("--port", int, port)
    if port is not None and not 1 <= number <= 65535:
        raise UserError(f"--port must be in [1, 65535], not {port}")
    path, pause = Path(directory), convert("--every", float, every)
    if not 0.05 <= pause <= 86400:
        raise UserError(f"--every must be in [0.05, 86400] seconds, not {every}")
    try:
        if web:
            _serve(path, number, pause)
            return 0
        view = read_view(path)
        if once:
            console(sys.stdout).print(render(view))
        elif on_terminal():
            _draw_in_place(view, path, pause)
        else:
            _print_lines(view, path, pause)
    except KeyboardInterrupt:
        pass  # the view ends, the run does not notice
    return 0


def _serve(path: Path, port: int, every: float) -> None:
    """Serve the report page about a run on the loopback address."""
    from ...report.live import Look, follow

    def look() -> Look:
        view = read_view(path)
        share = f" {100 * view.iteration // view.iterations}%" if view.iterations else ""
        return Look(" · ".join(words_of(view)), f"{view.status}{share} {path.name}", view.over)

    follow(path, port, every, look, lambda text: print(text, flush=True))


def _draw_in_place(view: View, path: Path, every: float) -> None:
    from rich.live import Live

    with Live(render(view), console=console(sys.stdout), auto_refresh=False) as live:
        while not view.over and lost_output() is None:
            time.sleep(every)
            view = read_view(path)
            live.update(render(view), refresh=True)


def _print_lines(view: View, path: Path, every: float) -> None:
    """Print a line whenever there is something new, for a file or a pipe."""
    printed = ""
    while True:
        if line_of(view) != printed:
            printed = line_of(view)
            print(printed, flush=True)
        if view.over or lost_output() is not None:
            return
        time.sleep(every)
        view = read_view(path)


def _add_arguments(parser: "Parser") -> None:
    parser.add_argument("directory", metavar="DIR", help="run directory")
    parser.add_argument("--once", action="store_true", help="print it once and end")
    parser.add_argument("--every", metavar="SECONDS", help="time between two looks (default 1)")
    parser.add_argument(
        "--web", action="store_true", help="serve the report page, live, on the loopback address"
    )
    parser.add_argument("--port", metavar="PORT", help="port of --web (default: one that is free)")


WATCH = Command(
    name="watch",
    group=RESULTS,
    summary="follow a run live",
    help=HELP,
    add_arguments=_add_arguments,
    alone=watch,
)
