"""The tables of the laboratory: what exchanges cost, and where the time of a run goes."""

import sys
from pathlib import Path
from typing import Any

from ..performance.cost_model import Cost
from .console import console, duration, rate, table_of


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


def show_scale(rows: list[dict[str, Any]], directory: Path) -> None:
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
    heads = ["series", "ranks", "degree", "iteration", "exposed", "bytes, all ranks", "efficiency"]
    output.print(table_of("scaling, one iteration", heads, lines))
    if any(row["crowded"] for row in rows):
        output.print(
            "* more ranks than cores: these times say something about scheduling on this machine, "
            "not about a network",
            highlight=False,
        )
    for name in ("scale.json", "scale.csv", "scale.png"):
        if (directory / name).exists():
            output.print(f"wrote {directory / name}", markup=False, highlight=False, soft_wrap=True)


def show_prediction(found: dict[str, Any], cost: Cost, left_out: list[str]) -> None:
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
        for row in found["rows"]
    ]
    heads = [
        "graph",
        "degree",
        "bytes a rank",
        "compute",
        "communication",
        "iteration",
        "rho_A",
        "to halve",
    ]
    title = f"{found['nodes']} nodes, messages of {found['bytes']:,} bytes: one iteration"
    output.print(table_of(title, heads, lines))
    for line in (
        f"iteration = compute + {duration(cost.latency)} + degree x "
        f"({duration(cost.per_message)} + bytes / {rate(cost.bandwidth)})",
        f"compute: {found['compute']}",
        "to halve: time in which mixing alone halves the disagreement between nodes",
        *(f"left out: {reason}" for reason in left_out),
    ):
        output.print(line, markup=False, highlight=False, soft_wrap=True)


def show_checks(checks: list[dict[str, Any]]) -> None:
    lines = [
        [
            check["what"],
            duration(check["predicted"]),
            duration(check["measured"]),
            f"{100 * check['error']:+.0f}%",
        ]
        for check in checks
    ]
    heads = ["run", "predicted", "measured", "error"]
    console(sys.stdout).print(table_of("the model against measured runs", heads, lines))
