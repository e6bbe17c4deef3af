"""The growth of time per iteration and memory per rank with n, degree, dim and seeds."""

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench import Bench

DIMENSIONS = (10, 100, 1000, 10_000, 100_000, 1_000_000)
SEEDS = (1, 5, 20, 50, 100, 200)
GRAPHS = ("ring", "er:p=0.3", "er:p=0.5", "er:p=0.7", "complete")


def plan() -> dict[str, list[tuple[int, list[str], int]]]:
    """Return, per axis, the (ranks, options, iterations) of all runs."""
    return {
        "nodes": [(n, ["--graph=er:p=0.7"], 1000) for n in (2, 4, 8, 16, 32)],
        "degree": [(16, [f"--graph={graph}"], 1000) for graph in GRAPHS],
        "dim": [
            (8, ["--graph=ring", f"--problem=huber:dim={d},phi=diagonal"], max(20, 10**6 // d))
            for d in DIMENSIONS
        ],
        "seeds": [(16, ["--graph=er:p=0.7", f"--seeds={s}"], 1000) for s in SEEDS],
    }


def value_of(axis: str, facts: dict[str, Any]) -> float:
    """Return the place of a run on an axis."""
    config, graph = facts["config"], facts["graph"]
    if axis == "degree":
        return float(2 * graph["edges"] / config["n"])
    if axis == "dim":
        return int(config["problem"].split("dim=")[1].split(",")[0])
    return int(config["n" if axis == "nodes" else "seeds"])


def grow(bench: "Bench", out: Path) -> None:
    """Measure all axes, print the tables, and write growth.json and growth.png."""
    table: dict[str, list[dict[str, Any]]] = {}
    for axis, runs in plan().items():
        table[axis] = []
        for ranks, options, iterations in runs:
            count = max(10, min(1000, iterations) // (5 if bench.quick else 1))
            words = [f"--iterations={count}", f"--log-every={count}", *options]
            times = []
            for _ in range(1 if bench.quick else 3):
                memory = bench.timed(*words, ranks=ranks)["memory"]
                facts = bench.place.facts()
                times.append(facts["seconds_per_iteration"])
            row = {
                axis: value_of(axis, facts),
                "ranks": ranks,
                "seconds_per_iteration": statistics.median(times),
                "memory_per_rank": memory,
            }
            table[axis].append(row)
            print(json.dumps(row), flush=True)
            (out / "growth.json").write_text(json.dumps({"schema": 1, **table}, indent=2))
    for axis, rows in table.items():
        print(f"\n| {axis} | time per iteration | memory per rank |\n|---|---|---|")
        for row in rows:
            time = 1e6 * row["seconds_per_iteration"]
            print(f"| {row[axis]:g} | {time:,.0f} µs | {row['memory_per_rank'] / 1e6:.0f} MB |")
    draw(table, out / "growth.png")


def draw(table: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Draw time and memory against each axis, one column of panels per axis."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle("Algorithm 1 (gt-adaptive) on Huber: cost of an iteration as the problem grows")
    axes = figure.subplots(2, len(table), sharex="col", sharey="row")
    plain = FuncFormatter(lambda value, _: short(value))
    for column, (axis, rows) in enumerate(table.items()):
        x = [row[axis] for row in rows]
        upper, lower = axes[:, column]
        upper.loglog(x, [1e6 * row["seconds_per_iteration"] for row in rows], "o-")
        lower.semilogx(x, [row["memory_per_rank"] / 1e6 for row in rows], "o-", color="C1")
        ranks = "" if axis == "nodes" else f" ({rows[0]['ranks']} ranks)"
        lower.set_xlabel(f"{axis}{ranks}")
        lower.xaxis.set_minor_locator(NullLocator())
        lower.set_xticks(x, [short(value) for value in x])
        for panel in (upper, lower):
            panel.grid(alpha=0.3)
        upper.yaxis.set_major_formatter(plain)
    axes[0, 0].set_ylabel("µs per iteration")
    axes[1, 0].set_ylabel("MB per rank")
    axes[1, 0].set_ylim(bottom=0)
    figure.savefig(path, dpi=120)


def short(value: float) -> str:
    """Format a number in a few letters: 10, 5.6, 100k, 1M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.2g}" if value < 10 else f"{value:.3g}"
