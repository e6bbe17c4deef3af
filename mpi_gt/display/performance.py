"""The tables of `bench`, `profile`, `scale` and `predict`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .compression import compressed_tables, prediction_table
from .console import console, duration, rate, table_of

if TYPE_CHECKING:
    from ..performance.cost_model import Cost


def show_bench(bench: dict[str, Any]) -> None:
    """Show one table per graph, median time and fit by exchange, then what was skipped and why."""
    output = console(sys.stdout)
    rows = bench["rows"]
    names = list(dict.fromkeys(row["exchange"] for row in rows))
    sizes = sorted({row["bytes"] for row in rows})
    for graph in dict.fromkeys(row["graph"] for row in rows):
        medians = {(r["exchange"], r["bytes"]): r for r in rows if r["graph"] == graph}
        fits = {f["exchange"]: f for f in bench["fits"] if f["graph"] == graph}
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
            f"{graph}, {len(bench['hosts'])} ranks, degree {degree}: "
            "median time of one exchange, by bytes to each neighbour"
        )
        columns = ["exchange", *(f"{size:,} B" for size in sizes)]
        columns += ["latency", "bandwidth", "R² of the fit"]
        output.print(table_of(title, columns, lines))
    for line in comparisons(rows):
        output.print(line, markup=False, highlight=False)
    if bench.get("compressed"):
        for part in compressed_tables(bench):
            output.print(part, markup=False, highlight=False, soft_wrap=isinstance(part, str))
    for name, reason in bench["skipped"].items():
        output.print(f"{name}: skipped: {reason}", markup=False, highlight=False, soft_wrap=True)
    for warning in bench["warnings"]:
        output.print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)
    for path in bench["written"]:
        output.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def comparisons(rows: list[dict[str, Any]]) -> list[str]:
    """Return lines with two ratios per size: neighbor to the call from C, pickle to neighbor."""
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


def show_profile(profile: dict[str, Any]) -> None:
    """Show the phases of an iteration with their shares, then the explanations of them."""
    output = console(sys.stdout)
    rows = []
    for name, phase in profile["phases"].items():
        if phase["mean"] == 0 and phase["share"] is None:
            continue
        share = "" if phase["share"] is None else f"{100 * phase['share']:.1f}%"
        imbalance = "" if phase["imbalance"] is None else f"{phase['imbalance']:.2f}"
        rows.append([name, duration(phase["mean"]), share, imbalance])
        if name == "exchange":
            waiting = profile["waiting"]
            by_rank = waiting["by_rank"]
            uneven = f"{max(by_rank) / waiting['mean']:.2f}" if waiting["mean"] > 0 else ""
            rows.append(
                [
                    "  of which waiting",
                    duration(waiting["mean"]),
                    f"{100 * waiting['share']:.1f}%",
                    uneven,
                ]
            )
    columns = ["phase", "mean over ranks", "share", "slowest rank / mean"]
    output.print(table_of("time per iteration", columns, rows))
    for line in explanations(profile):
        output.print(line, markup=False, highlight=False, soft_wrap=True)


def explanations(profile: dict[str, Any]) -> list[str]:
    """Return what a profile says about a run, in sentences."""
    mean, times = profile["seconds_per_iteration"], profile["iteration_seconds"]
    lines = [
        f"iteration: mean {duration(mean)}; median {duration(times['median'])}, "
        f"p95 {duration(times['p95'])}, p99 {duration(times['p99'])}",
        f"exposed communication: {duration(profile['exposed_communication'])} per iteration "
        f"({100 * profile['exposed_communication'] / mean:.0f}% of the time)",
    ]
    if profile["hidden_communication"] > 0:
        lines.append(
            f"hidden communication: {duration(profile['hidden_communication'])}, "
            f"{100 * profile['hidden_share']:.0f}% of all communication: the rank "
            "computed while messages of all its neighbours travelled or were there"
        )
    if profile["ratio_to_stacked"]:
        lines.append(
            f"{profile['ratio_to_stacked']:.2f} times the "
            f"{duration(profile['stacked_seconds_per_iteration'])} of the same experiment stacked "
            "in one process, without communication"
        )
    if profile["straggler"]:
        slow = profile["straggler"]
        lines.append(
            f"straggler: node {slow['node']} spends {duration(slow['own'])} per iteration on its "
            f"own work, {duration(slow['excess'])} more than the median of the others: "
            f"{100 * slow['excess'] / mean:.0f}% of the iteration time"
        )
    clocks = profile["clocks"]
    lines.append(
        f"clocks: offsets up to {max(map(abs, clocks['offset'])) * 1e6:.1f} µs, drift up to "
        f"{max(map(abs, clocks['drift'])) * 1e6:.2f} µs per second, "
        f"known to within {max(clocks['uncertainty']) * 1e6:.1f} µs"
    )
    return lines


def show_scale(rows: list[dict[str, Any]], directory: Path) -> None:
    """Show one row per number of ranks, and list the files written to `directory`."""
    output = console(sys.stdout)
    lines = [
        [
            f"{row['mode']}, {row['graph']}",
            f"{row['ranks']}{' *' if row['crowded'] else ''}",
            str(row["degree"]),
            duration(row["seconds_per_iteration"]),
            duration(row["exposed_communication"]),
            f"{row['bytes_per_iteration']:,.0f}",
            f"{row['efficiency']:.2f}",
        ]
        for row in rows
    ]
    columns = ["series", "ranks", "degree", "time", "exposed communication", "bytes (all ranks)"]
    output.print(table_of("scaling: one iteration", [*columns, "efficiency"], lines))
    if any(row["crowded"] for row in rows):
        output.print(
            "* more ranks than cores: these times measure the scheduler of this machine, not a "
            "network",
            highlight=False,
        )
    for name in ("scale.json", "scale.csv", "scale.columns.json", "scale.png"):
        if (directory / name).exists():
            output.print(f"wrote {directory / name}", markup=False, highlight=False, soft_wrap=True)


def show_prediction(prediction: dict[str, Any], cost: "Cost", left_out: list[str]) -> None:
    """Show one row per graph, the formula with its numbers, and the graphs that were left out."""
    output = console(sys.stdout)
    lines = [
        [
            row["graph"],
            str(row["degree"]),
            f"{row['bytes_per_rank']:,}",
            duration(row["compute"]),
            duration(row["communication"]),
            duration(row["iteration"]),
            "" if row["rho_A"] is None else f"{row['rho_A']:.4f}",
            ""
            if row["seconds_to_halve_disagreement"] is None
            else duration(row["seconds_to_halve_disagreement"]),
        ]
        for row in prediction["rows"]
    ]
    columns = [
        "graph",
        "degree",
        "bytes per rank",
        "compute",
        "communication",
        "iteration",
        "rho_A",
        "half-life",
    ]
    title = f"{prediction['nodes']} nodes, messages of {prediction['bytes']:,} bytes: one iteration"
    output.print(table_of(title, columns, lines))
    for line in (
        f"iteration = compute + {duration(cost.latency)} + degree x "
        f"({duration(cost.per_message)} + bytes / {rate(cost.bandwidth)})",
        f"compute: {prediction['compute']}",
        "half-life: time in which mixing alone halves the disagreement between nodes",
        *(f"left out: {reason}" for reason in left_out),
    ):
        output.print(line, markup=False, highlight=False, soft_wrap=True)
    for each in prediction.get("compressed", ()):
        table, lines_below = prediction_table(each, prediction["bytes"])
        output.print(table)
        for line in lines_below:
            output.print(line, markup=False, highlight=False, soft_wrap=True)


def show_checks(checks: list[dict[str, Any]]) -> None:
    """Show the predicted beside the measured time per iteration of runs."""
    lines = [
        [
            check["what"],
            duration(check["predicted"]),
            duration(check["measured"]),
            f"{100 * check['error']:+.0f}%",
        ]
        for check in checks
    ]
    columns = ["run", "predicted", "measured", "error"]
    title = "time per iteration: the model against measured runs"
    console(sys.stdout).print(table_of(title, columns, lines))
