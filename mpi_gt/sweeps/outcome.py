"""Outcome of a sweep: sweep.csv, the best point of each method, figures, and run.json."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import plots
from ..display.sweep import show_sweep
from ..plots.sweep import draw_sweep_grid
from ..results.record import Record, Row, read_record
from ..results.runs import Runs, columns_of
from ..rundir.atomic import write_csv
from ..rundir.remains import forget_launches
from .axes import Axis
from .plan import Plan, remove_results

FIRST = ("status", "error", "gap", "gap_se", "loss", "loss_se", "final_gap", "final_loss")
"""The columns of sweep.csv behind the axes; all others of the summary follow."""


@dataclass(frozen=True)
class Best:
    """The point of a method with the smallest gap, in one setting or in all."""

    method: str
    values: dict[str, str]  # by axis
    gap: float
    loss: float | None
    edges: dict[str, str]  # axes at whose end it lies: the smallest or the largest value
    overall: bool  # the best of the method in the whole grid

    def facts(self) -> dict[str, Any]:
        """Return it for run.json."""
        return {
            "method": self.method,
            **self.values,
            "gap": self.gap,
            "loss": self.loss,
            "edges": list(self.edges),
            "overall": self.overall,
        }


def finish(plan: Plan, code: int, quiet: bool) -> int:
    """Write and show the results of a sweep, complete or not; return the exit code."""
    rows = table_of(plan)
    remove_results(plan.directory)
    columns = _columns(plan.grid.axes, rows)
    write_csv(plan.directory / "sweep.csv", columns, rows)
    best = best_points(plan.grid.axes, rows)
    written = ["sweep.csv", *(path.name for path in _draw(plan, rows))]
    failed = [row for row in rows if row["status"] not in ("finished", "diverged")]
    complete = code == 0 and not failed
    code = code or (1 if failed else 0)
    status = "finished" if complete else "stopped" if code == 85 else "failed"
    facts: dict[str, Any] = {"exit_code": code, "best": [each.facts() for each in best]}
    if failed and status == "failed":
        facts["error"] = f"{len(failed)} of {len(rows)} points did not finish"
    plan.write(status, figures=written[1:], **facts)
    if status != "failed":
        forget_launches(plan.directory, everywhere=True)
    if not quiet:
        show_sweep(plan.grid.config, plan.grid.axes, rows, best)
        for name in written:
            print(f"wrote {plan.directory / name}")
    for warning in edge_warnings(best, plan.grid.axes):
        print(f"mpi-gt: warning: {warning}", file=sys.stderr, flush=True)
    if failed:
        hint = f"mpi-gt resume {shlex.quote(str(plan.directory))}"
        text = f"{len(failed)} of {len(rows)} points did not finish"
        print(f"mpi-gt: {text}; to continue: {hint}", file=sys.stderr, flush=True)
    return code


def runs_of(plan: Plan) -> Runs:
    """Return the points of a sweep that have begun, in the order of the grid."""
    records = (_record(plan, number) for number in range(len(plan.names)))
    return Runs(record for record in records if record is not None)


def _record(plan: Plan, number: int) -> Record | None:
    path = plan.path(number)
    return read_record(path) if (path / "run.json").exists() else None


def table_of(plan: Plan) -> list[Row]:
    """Return one row per point: its values on the axes, how it ended, and its metrics."""
    rows = []
    for number, point in enumerate(plan.grid.points):
        record = _record(plan, number)
        summary: Row = {"status": "pending"}
        if record is not None:
            (label,) = record.labels
            summary = record.summarise(label)
        axes = {name: _typed(value) for name, value in point.values.items()}
        first = {"point": plan.names[number], "method": point.method, **axes}
        summary.pop("directory", None)  # `point` says it
        rows.append({**summary, **first})
    return rows


def _typed(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _columns(axes: Sequence[Axis], rows: Sequence[Row]) -> list[str]:
    names = columns_of(rows)
    first = ["point", "method", *(axis.name for axis in axes)]
    first += [name for name in FIRST if name in names or name in ("status", "error", "gap")]
    return [*first, *(name for name in names if name not in first)]


def best_points(axes: Sequence[Axis], rows: Sequence[Row]) -> list[Best]:
    """Return the best point of each method and setting, by the gap.

    A setting is a combination of values of the axes that are no options of the methods: gaps on
    two problems cannot be compared. Without an axis of the methods or of the channel, all points
    are compared.
    """
    tuned = [axis for axis in axes if axis.of_method]
    channel = [axis for axis in axes if axis.name.startswith("channel")]
    setting = [axis.name for axis in axes if axis not in tuned] if tuned or channel else []
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["method"], *(row[name] for name in setting)), []).append(row)
    found = {key: min(ended, key=_gap) for key, group in groups.items() if (ended := _ended(group))}
    overall = {
        method: min((row for key, row in found.items() if key[0] == method), key=_gap)["point"]
        for method in dict.fromkeys(key[0] for key in found)
    }
    return [
        Best(
            row["method"],
            {axis.name: str(row[axis.name]) for axis in axes},
            row["gap"],
            row.get("loss"),
            _edges(tuned, row),
            overall[row["method"]] == row["point"],
        )
        for row in found.values()
    ]


def _ended(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["status"] == "finished" and row.get("gap") is not None]


def _gap(row: Mapping[str, Any]) -> float:
    return float(row["gap"])


def _edges(tuned: Sequence[Axis], row: Row) -> dict[str, str]:
    edges = {}
    for axis in tuned:
        numbers = axis.numbers
        if numbers is None or len(numbers) < 2:
            continue
        value = float(row[axis.name])
        if value in (min(numbers), max(numbers)):
            edges[axis.name] = "smallest" if value == min(numbers) else "largest"
    return edges


def edge_warnings(best: Sequence[Best], axes: Sequence[Axis]) -> list[str]:
    """Return a warning per method whose best value lies at the end of an axis."""
    warnings = []
    for axis in axes:
        for method in dict.fromkeys(each.method for each in best):
            own = [each for each in best if each.method == method]
            edges = [each for each in own if axis.name in each.edges]
            if not edges:
                continue
            ends = " or ".join(sorted({each.edges[axis.name] for each in edges}))
            where = "" if len(own) == 1 else f" in {len(edges)} of {len(own)} settings"
            values = ", ".join(dict.fromkeys(each.values[axis.name] for each in edges))
            warnings.append(
                f"{method}: the best {axis.name} is the {ends} of the grid{where} ({values}): "
                "a wider range may do better"
            )
    return warnings


def _draw(plan: Plan, rows: Sequence[Row]) -> list[Path]:
    if plan.grid.config.no_figures:
        return []
    if not plots.available():
        print("no figures: matplotlib is missing (pip install 'mpi-gt[plot]')", file=sys.stderr)
        return []
    drawn, warning = plots.try_to_draw(
        lambda: draw_sweep_grid(plan.directory, plan.grid.axes, rows)
    )
    if warning:
        print(f"mpi-gt: warning: {warning}", file=sys.stderr, flush=True)
    return drawn
