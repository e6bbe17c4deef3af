"""The figures of the page as plain data for plotly, except the curves, which page.js draws."""

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from ..plots.performance import traffic_matrix
from .curves import numbers

Figure = dict[str, Any]

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999", "#e08214")
PHASES = {
    "gradient": "#4477aa",
    "update": "#66ccee",
    "packing": "#ccbb44",
    "encode": "#aa3377",
    "decode": "#228833",
    "exchange": "#ee8866",
    "unattributed": "#999999",
}


def text(value: Any) -> str:
    """Return a value as text for plotly, escaped because plotly interprets some markup."""
    return escape(str(value), quote=False)


def axis(title: str, log: bool = False, **more: Any) -> dict[str, Any]:
    """Return the layout of an axis."""
    kind = {"type": "log", "exponentformat": "power"} if log else {}
    return {"title": {"text": title, "standoff": 10}, "automargin": True, **kind, **more}


def draw_phases(profile: Mapping[str, Any]) -> Figure:
    """Draw one bar per rank with the time of each phase."""
    waiting = np.array(profile["waiting"]["by_rank"]) * 1e6
    bars = []
    for name, colour in PHASES.items():
        if name not in profile["phases"]:  # only methods with compressed messages encode
            continue
        height = np.array(profile["phases"][name]["by_rank"]) * 1e6
        if name != "exchange":
            bars.append(_bar(name, height, {"color": colour}))
            continue
        working = np.maximum(height - waiting, 0)
        hatched = {"color": colour, "opacity": 0.6, "pattern": {"shape": "/"}}
        bars.append(_bar("exchange", working, {"color": colour}))
        bars.append(_bar("exchange: waiting", height - working, hatched))
    return {
        "data": bars,
        "layout": {
            "barmode": "stack",
            "xaxis": axis("rank", tickformat="d"),
            "yaxis": axis("µs per iteration"),
        },
    }


def _bar(name: str, height: Any, marker: dict[str, Any]) -> dict[str, Any]:
    return {"type": "bar", "name": name, "y": numbers(height), "marker": marker}


def draw_traffic(profile: Mapping[str, Any]) -> Figure:
    """Draw the vector bytes per iteration from each rank to each other rank."""
    summed, group = traffic_matrix(profile)
    nodes = len(profile["bytes_by_rank"])
    begins = range(0, nodes, group)
    shown = [[value or None for value in numbers(row)] for row in summed]
    ticks: dict[str, Any] = {"tickformat": "d", "dtick": -(-nodes // 8)}  # whole ranks only
    names = [str(i) if group == 1 else f"{i} to {min(i + group, nodes) - 1}" for i in begins]
    return {
        "data": [
            {
                "type": "heatmap",
                "z": shown,
                "zmin": 0,
                "zmax": float(summed.max()),
                "customdata": [[[a, b] for b in names] for a in names],
                "hovertemplate": "%{customdata[0]} → %{customdata[1]}: %{z:,} bytes<extra></extra>",
                "x0": 0,
                "dx": group,
                "y0": 0,
                "dy": group,
                "colorscale": "Viridis",
                "colorbar": {"title": {"text": "bytes"}, "thickness": 12},
                "hoverongaps": False,
            }
        ],
        "layout": {
            "xaxis": axis("to rank", **ticks),
            "yaxis": axis("from rank", **ticks, autorange="reversed"),
        },
    }


def draw_bench(bench: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw one figure per graph: time of an exchange against its size, with the fit dashed."""
    rows = bench["rows"]
    exchanges = list(dict.fromkeys(row["exchange"] for row in rows))
    fits = {(fit["exchange"], fit["graph"]): fit for fit in bench["fits"]}
    figures = {}
    for graph in dict.fromkeys(row["graph"] for row in rows):
        traces: list[dict[str, Any]] = []
        for number, name in enumerate(exchanges):
            series = [row for row in rows if (row["exchange"], row["graph"]) == (name, graph)]
            if not series:
                continue
            colour = COLOURS[number % len(COLOURS)]
            median = np.array([row["median"] for row in series]) * 1e6
            above = np.array([row["p95"] for row in series]) * 1e6 - median
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": text(name),
                    "legendgroup": text(name),
                    "x": [row["bytes"] for row in series],
                    "y": numbers(median),
                    "error_y": {
                        "type": "data",
                        "symmetric": False,
                        "array": numbers(above),
                        "arrayminus": [0] * len(series),
                        "thickness": 1,
                    },
                    "marker": {"color": colour, "size": 8, "symbol": number},
                }
            )
            fit = fits.get((name, graph))
            if fit is not None:
                sizes = np.geomspace(series[0]["bytes"], series[-1]["bytes"], 40)
                slope = 1 / fit["bandwidth"] if fit["bandwidth"] else 0.0
                each = fit["per_message"] + sizes * slope
                traces.append(
                    {
                        "type": "scatter",
                        "mode": "lines",
                        "name": f"{text(name)}, fit",
                        "legendgroup": text(name),
                        "showlegend": False,
                        "x": numbers(sizes),
                        "y": numbers((fit["latency"] + series[0]["degree"] * each) * 1e6),
                        "line": {"color": colour, "dash": "dash", "width": 1.3},
                    }
                )
        layout = {
            "xaxis": axis("vector bytes to each neighbour", log=True, dtick=1),
            "yaxis": axis("time of one exchange (µs)", log=True),
        }
        figures[graph] = {"data": traces, "layout": layout}
    return figures


def draw_lines(lines: Mapping[str, tuple[list[Any], list[Any]]], across: str, up: str) -> Figure:
    """Draw named lines with markers on log scales; whole numbers on the x axis become its ticks."""
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": text(name),
            "x": x,
            "y": y,
            "line": {"color": COLOURS[number % len(COLOURS)]},
            "marker": {"symbol": number, "size": 8},
        }
        for number, (name, (x, y)) in enumerate(lines.items())
    ]
    places = sorted({place for x, _ in lines.values() for place in x})
    whole = all(isinstance(place, int) for place in places)
    ticks = {"tickvals": places, "exponentformat": "none"} if whole else {}
    layout = {"xaxis": {**axis(across, log=True), **ticks}, "yaxis": axis(up, log=True)}
    return {"data": traces, "layout": layout}
