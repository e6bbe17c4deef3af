"""Figures from metrics.csv."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..rundir.metrics_csv import read_metrics

if TYPE_CHECKING:
    from networkx import Graph

Array = NDArray[Any]

LABELS = {
    "loss": r"loss  $f(\bar x)$",
    "gap": r"optimality gap  $\|\nabla f(\bar x)\|^2 + \frac{1}{n}\sum_i\|x_i - \bar x\|^2$",
}

ACROSS = {"iteration": "iteration", "seconds": "seconds", "bytes": "bytes sent, all nodes, a seed"}
DASHES = ("-", "--", "-.", ":")
DRAWABLE = 1e250  # from there on a figure's margins are past the largest number


def over_seeds(rows: list[dict[str, str]], metric: str) -> tuple[Array, Array]:
    """The iterations, and the metric as (iterations, seeds)."""
    values: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        values[int(row["iteration"])].append(float(row[metric]))
    iterations = sorted(values)
    return np.array(iterations), np.array([values[iteration] for iteration in iterations])


def draw_run(directory: Path) -> list[Path]:
    """loss.png and gap.png: the mean over seeds, in a band from the smallest to the largest."""
    from matplotlib.figure import Figure

    runs = read_metrics(directory / "metrics.csv")
    figures = []
    for metric, label in LABELS.items():
        figure = Figure(figsize=(6.4, 4.2), dpi=150, layout="constrained")
        axes = figure.add_subplot()
        for number, (name, rows) in enumerate(runs.items()):
            _, values = over_seeds(rows, metric)
            band = f"{name} (range over {values.shape[1]} seeds)" if values.shape[1] > 1 else name
            _draw_line(axes, rows, "iteration", metric, number, band)
        _finish(axes, "iteration", label)
        axes.legend()
        figures.append(directory / f"{metric}.png")
        figure.savefig(figures[-1])
    return figures


def draw_comparison(directory: Path) -> list[Path]:
    """comparison.png: loss and gap of every algorithm against iterations, seconds and bytes."""
    from matplotlib.figure import Figure

    runs = read_metrics(directory / "metrics.csv")
    figure = Figure(figsize=(12, 7.2), dpi=150, layout="constrained")
    panels = figure.subplots(2, 3, sharey="row")
    for row_of_panels, (metric, label) in zip(panels, LABELS.items(), strict=True):
        for axes, against in zip(row_of_panels, ACROSS, strict=True):
            for number, (name, rows) in enumerate(runs.items()):
                _draw_line(axes, rows, against, metric, number, name, shade=0.1)
            _finish(axes, ACROSS[against], label if against == "iteration" else "")
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=min(4, len(names)))
    target = directory / "comparison.png"
    figure.savefig(target)
    return [target]


def _draw_line(
    axes: Any,
    rows: list[dict[str, str]],
    across: str,
    metric: str,
    number: int,
    label: str,
    shade: float = 0.25,
) -> None:
    _, values = over_seeds(rows, metric)
    values = np.where(np.abs(values) < DRAWABLE, values, np.nan)
    _, places = over_seeds(rows, across)
    where = places.mean(axis=1)
    style = {"color": f"C{number % 10}", "linestyle": DASHES[number % len(DASHES)]}
    axes.plot(where, values.mean(axis=1), label=label, linewidth=1.4, **style)
    if values.shape[1] > 1:
        lowest, highest = values.min(axis=1), values.max(axis=1)
        axes.fill_between(where, lowest, highest, color=style["color"], alpha=shade, linewidth=0)


def _finish(axes: Any, across: str, label: str) -> None:
    """Log scale where everything drawn is positive."""
    drawn = np.concatenate([line.get_ydata() for line in axes.lines])
    if (drawn[~np.isnan(drawn)] > 0).all():
        axes.set_yscale("log")
    axes.set_xlabel(across)
    axes.set_ylabel(label)
    axes.grid(visible=True, which="major", alpha=0.3)


def draw_graph(graph: "Graph", title: str, target: Path) -> None:
    """The nodes, coloured by degree, and the edges."""
    import networkx as nx
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    start = nx.circular_layout(graph)
    place = nx.spring_layout(graph, pos=start, seed=0, iterations=200)
    segments = [(place[i], place[j]) for i, j in graph.edges]
    axes.add_collection(LineCollection(segments, colors="0.7", linewidths=0.8, zorder=1))
    nodes = np.array([place[node] for node in range(len(graph))])
    degrees = [graph.degree[node] for node in range(len(graph))]
    size = max(20, min(400, 12000 / len(graph)))
    dots = axes.scatter(nodes[:, 0], nodes[:, 1], c=degrees, s=size, cmap="viridis", zorder=2)
    if len(graph) <= 64:
        middle = (min(degrees) + max(degrees)) / 2
        for node, spot in enumerate(nodes):
            colour = "white" if degrees[node] <= middle else "black"
            axes.annotate(str(node), spot, ha="center", va="center", fontsize=8, color=colour)
    ticks = sorted(set(degrees))
    if len(ticks) > 1:
        ticks = ticks[:: len(ticks) // 8 + 1]
        figure.colorbar(dots, ax=axes, label="degree", shrink=0.6, ticks=ticks)
    axes.set_title(title)
    axes.set_axis_off()
    axes.margins(0.08)
    figure.savefig(target)


def draw_sweep(directory: Path, sweep: Mapping[str, Any]) -> list[Path]:
    """sweep.png: tail gap and tail loss against the stepsize, a line a method."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), dpi=150, layout="constrained")
    for axes, metric in zip(figure.subplots(1, 2), ("gap", "loss"), strict=True):
        for number, (method, of) in enumerate(sweep.items()):
            found = [(lr, v) for lr, v in zip(of["lr"], of[metric], strict=True) if v is not None]
            style = {"color": f"C{number % 10}", "linestyle": DASHES[number % len(DASHES)]}
            marker = MARKERS[number % len(MARKERS)]
            places, values = zip(*found, strict=True) if found else ((), ())
            axes.plot(places, values, label=method, marker=marker, markersize=5, **style)
        axes.set_xscale("log")
        drawn = [value for of in sweep.values() for value in of[metric] if value is not None]
        if min(drawn, default=0) > 0:
            axes.set_yscale("log")
        axes.set_xlabel("stepsize lr (a missing point: diverged)")
        axes.set_ylabel(f"{metric}, mean over the last fifth and over seeds")
        axes.grid(visible=True, which="major", alpha=0.3)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(4, len(names)), fontsize=9)
    target = directory / "sweep.png"
    figure.savefig(target)
    return [target]


NAMES = {
    "gt-adaptive": "Algorithm 1",
    "gt": "distributed GT",
    "dsgd": "DSGD",
    "dsgd-momentum": "Momentum DSGD",
    "decentlam": "DecentLaM",
    "d-amsgrad": "D-AMSGrad",
    "d-adabound": "D-AdaBound",
    "gtadam": "GTAdam",
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def draw_study(directory: Path, title: str, note: str) -> list[Path]:
    """figure.png and figure.pdf in the paper's layout: loss, and optimality gap."""
    from matplotlib.figure import Figure

    runs = read_metrics(directory / "metrics.csv")
    figure = Figure(figsize=(10, 4.6), dpi=150, layout="constrained")
    for axes, (metric, label) in zip(figure.subplots(1, 2), LABELS.items(), strict=True):
        for number, (name, rows) in enumerate(runs.items()):
            _draw_line(axes, rows, "iteration", metric, number, NAMES.get(name, name), shade=0.12)
            line = axes.lines[-1]  # markers as well: to be told apart in grey
            line.set_marker(MARKERS[number % len(MARKERS)])
            line.set_markersize(4)
            points = len(line.get_xdata())
            line.set_markevery((number * points // 60, max(1, points // 8)))
        _finish(axes, "iteration", label)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(7, len(names)), fontsize=9)
    figure.suptitle(f"{title} ({note})", fontsize=11)
    targets = [directory / "figure.png", directory / "figure.pdf"]
    for target in targets:
        # without the date, the same numbers give the same file
        metadata = {"CreationDate": None} if target.suffix == ".pdf" else None
        figure.savefig(target, metadata=metadata)
    return targets
