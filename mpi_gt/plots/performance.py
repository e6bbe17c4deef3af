"""Figures of `bench`, `profile` and `scale`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import plain, save
from .compression import draw_stages

MARKERS = ("o", "s", "^", "v", "D", "P", "X", "*", "h")
MOST_CELLS = 128  # rows of the traffic matrix; with more ranks, each row is a group of them


def draw_bench(path: Path, bench: Mapping[str, Any]) -> list[Path]:
    """Draw bench.png: time of an exchange against bytes, one panel per graph.

    Points are measured medians with a bar up to the 95th percentile, lines are the fits. With
    compressed exchanges a second row shows their stages beside the uncompressed exchange.
    """
    from matplotlib.figure import Figure

    rows, fits = bench["rows"], bench["fits"]
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    names = list(dict.fromkeys(row["exchange"] for row in rows))
    compressed = bench.get("compressed", [])
    lines = 2 if compressed else 1
    width = 5.2 * len(graphs) + 2.2
    figure = Figure(figsize=(width, 4.6 * lines), dpi=150, layout="constrained")
    panels, *below = figure.subplots(lines, len(graphs), sharey="row", squeeze=False)
    for axes, graph in zip(panels, graphs, strict=True):
        for number, name in enumerate(names):
            series = [row for row in rows if (row["graph"], row["exchange"]) == (graph, name)]
            if not series:
                continue
            sizes = np.array([row["bytes"] for row in series])
            medians = np.array([row["median"] for row in series])
            high = np.array([row["p95"] for row in series])
            colour = f"C{number}" if number < 10 else "black"
            axes.errorbar(
                sizes,
                medians * 1e6,
                yerr=[np.zeros_like(high), np.maximum(high - medians, 0) * 1e6],
                fmt=MARKERS[number % len(MARKERS)],
                color=colour,
                markersize=5,
                elinewidth=0.8,
                capsize=2,
                label=name if name != "C" else "neighbor, called from C",
            )
            for fit in fits:
                if (fit["graph"], fit["exchange"]) == (graph, name):
                    _draw_fit(axes, fit, sizes, series[0]["degree"], colour)
        degree = max(row["degree"] for row in rows if row["graph"] == graph)
        axes.set(xscale="log", yscale="log", title=f"{plain(graph)} (degree {degree})")
        axes.set_xlabel("vector bytes to each neighbour")
        axes.grid(which="major", alpha=0.3)
    panels[0].set_ylabel(
        "time of one exchange (µs), slowest rank\nmedian, bar up to the 95th percentile"
    )
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    if compressed:
        draw_stages(figure, below[0], compressed)
    figure.suptitle(_heading(bench), fontsize=10)
    return [save(figure, path)]


def _heading(bench: Mapping[str, Any]) -> str:
    library = plain(bench["mpi"]["library"].split(",")[0]) if bench.get("mpi") else ""
    per_core = bench.get("ranks_per_core", 1)
    crowded = f"; {per_core:g} ranks per core: this measures scheduling, not a network"
    return f"{len(bench['hosts'])} ranks, {library}" + (crowded if per_core > 1 else "")


def _draw_fit(axes: Any, fit: Mapping[str, Any], sizes: Any, degree: int, colour: str) -> None:
    line = np.geomspace(sizes.min(), sizes.max(), 60)
    slope = 0 if fit["bandwidth"] is None else 1 / fit["bandwidth"]
    seconds = fit["latency"] + degree * (fit["per_message"] + line * slope)
    axes.plot(line, seconds * 1e6, color=colour, linewidth=0.9, alpha=0.7)


COLOURS = {
    "gradient": "#4477aa",
    "update": "#66ccee",
    "packing": "#ccbb44",
    "encode": "#aa3377",
    "decode": "#228833",
    "exchange": "#ee8866",
    "unattributed": "#bbbbbb",
}


def traffic_matrix(profile: Mapping[str, Any], cells: int = MOST_CELLS) -> tuple[Any, int]:
    """Return the vector bytes per iteration from each node (row) to each, and the nodes per row.

    With more nodes than `cells`, a row or column is a group of them. Former versions wrote the
    whole matrix into profile.json, which has a list of (from, to, bytes) now.
    """
    nodes = len(profile["bytes_by_rank"])
    if "traffic_edges" in profile:
        edges = np.array(profile["traffic_edges"], dtype=np.int64).reshape(-1, 3)
        sources, targets, sent = edges.T
    else:
        whole = np.array(profile["traffic"])
        sources, targets = np.nonzero(whole)
        sent = whole[sources, targets]
    group = -(-nodes // cells)
    matrix = np.zeros((-(-nodes // group),) * 2)
    np.add.at(matrix, (sources // group, targets // group), sent / max(1, profile["iterations"]))
    return matrix, group


def draw_profile(path: Path, profile: Mapping[str, Any], histogram: tuple[Any, Any]) -> list[Path]:
    """Draw profile.png: phases by rank, histogram of iteration times, bytes between nodes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.4), dpi=150, layout="constrained")
    bars, spread, traffic = figure.subplots(1, 3, width_ratios=[1.35, 1, 1])
    ranks = np.arange(len(profile["bytes_by_rank"]))
    bottom = np.zeros(len(ranks))
    waiting = np.array(profile["waiting"]["by_rank"]) * 1e6
    for name, colour in COLOURS.items():
        if name not in profile["phases"]:  # only methods with compressed messages encode
            continue
        height = np.array(profile["phases"][name]["by_rank"]) * 1e6
        if name == "exchange":
            working = np.maximum(height - waiting, 0)
            bars.bar(ranks, working, bottom=bottom, color=colour, label="exchange")
            bars.bar(
                ranks,
                height - working,
                bottom=bottom + working,
                color=colour,
                alpha=0.45,
                hatch="///",
                edgecolor="white",
                linewidth=0,
                label="exchange: waiting",
            )
        else:
            bars.bar(ranks, height, bottom=bottom, color=colour, label=name)
        bottom += height
    bars.set(xlabel="rank", ylabel="µs per iteration", title="where the time goes")
    bars.set_ylim(0, bottom.max() * 1.35)
    bars.legend(fontsize=7, ncols=3, loc="upper center")
    bars.xaxis.get_major_locator().set_params(integer=True)

    edges, counts = histogram
    spread.stairs(counts, np.asarray(edges) * 1e6, fill=True, color="#4477aa", alpha=0.8)
    for name, style in (("median", "-"), ("p95", "--"), ("p99", ":")):
        value = profile["iteration_seconds"][name] * 1e6
        spread.axvline(
            value, color="black", linestyle=style, linewidth=1, label=f"{name} {value:,.0f} µs"
        )
    spread.set(xscale="log", xlabel="µs", ylabel="iterations, all ranks")
    spread.set_title("time per iteration")
    spread.legend(fontsize=8)

    matrix, group = traffic_matrix(profile)
    shown = np.ma.masked_equal(matrix, 0)
    ends = -0.5, group * len(matrix) - 0.5
    image = traffic.imshow(shown, cmap="viridis", vmin=0, extent=(*ends, *ends[::-1]))
    traffic.set(xlabel="to node", ylabel="from node", title="vector bytes per iteration")
    for axis in (traffic.xaxis, traffic.yaxis):
        axis.get_major_locator().set_params(integer=True)
    figure.colorbar(image, ax=traffic, shrink=0.85)
    return [save(figure, path)]


def draw_scale(path: Path, rows: list[dict[str, Any]], cores: int) -> list[Path]:
    """Draw scale.png: time, exposed communication and bytes per iteration against ranks.

    Points are hollow where there are more ranks than cores.
    """
    from matplotlib.figure import Figure

    modes = list(dict.fromkeys(row["mode"] for row in rows))
    panels = {
        "seconds_per_iteration": ("µs per iteration", 1e6),
        "exposed_communication": ("exposed communication, µs per iteration", 1e6),
        "bytes_per_iteration": ("bytes per iteration, all ranks", 1.0),
    }
    figure = Figure(figsize=(13, 3.9 * len(modes)), dpi=150, layout="constrained")
    grid = figure.subplots(len(modes), len(panels), squeeze=False)
    for axes_row, mode in zip(grid, modes, strict=True):
        for axes, (column, (label, factor)) in zip(axes_row, panels.items(), strict=True):
            for number, graph in enumerate(dict.fromkeys(row["graph"] for row in rows)):
                series = [row for row in rows if (row["mode"], row["graph"]) == (mode, graph)]
                ranks = [row["ranks"] for row in series]
                values = [row[column] * factor for row in series]
                axes.plot(ranks, values, color=f"C{number}", linewidth=1, label=plain(graph))
                for row, rank, value in zip(series, ranks, values, strict=True):
                    axes.plot(
                        rank,
                        value,
                        marker=MARKERS[number % len(MARKERS)],
                        color=f"C{number}",
                        markerfacecolor="white" if row["crowded"] else f"C{number}",
                    )
            ticks = sorted({row["ranks"] for row in rows})
            axes.set(xscale="log", yscale="log", xlabel="ranks", ylabel=label)
            axes.set_title(f"{mode} scaling", fontsize=10)
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.set_xticks([], minor=True)
            axes.grid(which="both", alpha=0.3)
            crowded = [tick for tick in ticks if tick > cores]
            if crowded:
                axes.axvspan(crowded[0] / 1.2, ticks[-1] * 1.1, color="black", alpha=0.06)
    grid[0][0].legend(fontsize=8)
    figure.suptitle(
        f"grey and hollow: more ranks than cores ({cores}); these times measure scheduling, "
        "not a network",
        fontsize=10,
    )
    return [save(figure, path)]
