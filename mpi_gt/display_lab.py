"""The tables of the laboratory: what exchanges cost, and where the time of a run goes."""

import sys
from collections.abc import Sequence
from typing import Any

from .display import console


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """A table whose first column is text and whose others are numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title))
    for number, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def duration(seconds: float) -> str:
    """With a unit that suits it."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.2g} us"


def rate(bytes_per_second: float | None) -> str:
    if bytes_per_second is None:
        return "no limit seen"
    return f"{bytes_per_second / 1e6:,.0f} MB/s"


def show_bench(found: dict[str, Any]) -> None:
    """One table a graph: median time by exchange and size, with the fit; then what was left out."""
    output = console(sys.stdout)
    rows = found["rows"]
    names = list(dict.fromkeys(row["exchange"] for row in rows))
    sizes = sorted({row["bytes"] for row in rows})
    for graph in dict.fromkeys(row["graph"] for row in rows):
        medians = {(r["exchange"], r["bytes"]): r for r in rows if r["graph"] == graph}
        fits = {f["exchange"]: f for f in found["fits"] if f["graph"] == graph}
        degree = next(row["degree"] for row in medians.values())
        lines = []
        for name in names:
            cells = [name]
            for size in sizes:
                row = medians.get((name, size))
                cells.append("" if row is None else duration(row["median"]))
            fit = fits.get(name)
            cells += (
                ["", "", ""]
                if fit is None
                else [duration(fit["latency"]), rate(fit["bandwidth"]), f"{fit['r2']:.3f}"]
            )
            lines.append(cells)
        title = (
            f"{graph}, {len(found['hosts'])} ranks, degree {degree}: "
            "median time of one exchange, by bytes to each neighbour"
        )
        heads = ["exchange", *(f"{size:,} B" for size in sizes), "latency", "bandwidth", "fit R²"]
        output.print(table_of(title, heads, lines))
    for line in comparisons(rows):
        output.print(line, markup=False, highlight=False)
    for name, reason in found["skipped"].items():
        output.print(f"{name}: skipped: {reason}", markup=False, highlight=False, soft_wrap=True)
    for warning in found["warnings"]:
        output.print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)
    for path in found["written"]:
        output.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def comparisons(rows: list[dict[str, Any]]) -> list[str]:
    """neighbor against the same call from C, and pickle against neighbor, at each size."""
    lines = []
    medians = {(r["graph"], r["exchange"], r["bytes"]): r["median"] for r in rows}
    for name, base in (("neighbor", "C"), ("pickle", "neighbor")):
        for graph in dict.fromkeys(row["graph"] for row in rows):
            ratios = [
                f"{size:,} B {medians[graph, name, size] / medians[graph, base, size]:.2f}"
                for size in sorted({row["bytes"] for row in rows})
                if (graph, name, size) in medians and (graph, base, size) in medians
            ]
            if ratios:
                lines.append(f"{graph}: {name} / {base}: {', '.join(ratios)}")
    return lines


def show_profile(found: dict[str, Any]) -> None:
    """Phases with their shares, then what they mean in plain words."""
    output = console(sys.stdout)
    rows = []
    for name, phase in found["phases"].items():
        if phase["mean"] == 0 and phase["share"] is None:
            continue
        share = "" if phase["share"] is None else f"{100 * phase['share']:.1f}%"
        imbalance = "" if phase["imbalance"] is None else f"{phase['imbalance']:.2f}"
        rows.append([name, duration(phase["mean"]), share, imbalance])
        if name == "exchange":
            waiting = found["waiting"]
            by_rank = waiting["by_rank"]
            uneven = f"{max(by_rank) / waiting['mean']:.2f}" if waiting["mean"] > 0 else ""
            rows.append(
                [
                    "  of it waiting",
                    duration(waiting["mean"]),
                    f"{100 * waiting['share']:.1f}%",
                    uneven,
                ]
            )
    heads = ["phase", "mean over ranks", "share", "slowest rank / mean"]
    output.print(table_of("time of an iteration", heads, rows))
    for line in explanations(found):
        output.print(line, markup=False, highlight=False, soft_wrap=True)


def explanations(found: dict[str, Any]) -> list[str]:
    mean, times = found["seconds_per_iteration"], found["iteration_seconds"]
    lines = [
        f"iteration: mean {duration(mean)}; median {duration(times['median'])}, "
        f"p95 {duration(times['p95'])}, p99 {duration(times['p99'])}",
        f"exposed communication: {duration(found['exposed_communication'])} an iteration "
        f"({100 * found['exposed_communication'] / mean:.0f}% of it)",
    ]
    if found["hidden_communication"] > 0:
        lines.append(
            f"hidden communication: {duration(found['hidden_communication'])}, "
            f"{100 * found['hidden_share']:.0f}% of all: messages under way while the rank computed"
        )
    if found["ratio_to_stacked"]:
        lines.append(
            f"{found['ratio_to_stacked']:.2f} times the "
            f"{duration(found['stacked_seconds_per_iteration'])} of the same experiment stacked "
            "in one process, without communication"
        )
    if found["straggler"]:
        slow = found["straggler"]
        lines.append(
            f"straggler: node {slow['node']} spends {duration(slow['own'])} of its own in an "
            f"iteration, {duration(slow['excess'])} more than the others' median: "
            f"{100 * slow['excess'] / mean:.0f}% of the iteration time"
        )
    clocks = found["clocks"]
    lines.append(
        f"clocks: offsets up to {max(map(abs, clocks['offset'])) * 1e6:.1f} us, drift up to "
        f"{max(map(abs, clocks['drift'])) * 1e6:.2f} us a second, "
        f"known to {max(clocks['uncertainty']) * 1e6:.1f} us"
    )
    return lines
