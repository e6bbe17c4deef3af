"""The figure of a graph for the report page: edges or arrows, and the layers of a changing one."""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from .curves import numbers
from .figures import COLOURS, Figure

SHORT = 0.9  # of an arrow, so that its tip is not hidden by the node
Pairs = list[tuple[int, int]]


def draw_graph(graph: Mapping[str, Any]) -> Figure:
    """Draw the nodes of a graph, coloured by degree, and its edges; arcs are arrows.

    The layers of a changing graph have a colour each, and a click in the legend hides one.
    """
    pairs, directed = _pairs(graph["edge_list"])
    layers = [_pairs(layer["edge_list"]) for layer in graph.get("layers", ())]
    place = _places(graph["nodes"], tuple(pairs), bool(layers))
    if layers:
        drawn = [
            _links(place, *layer, COLOURS[number % len(COLOURS)], f"layer {number}")
            for number, layer in enumerate(layers)
        ]
    else:
        drawn = [_links(place, pairs, directed, "#8888", "")]
    bare = {"visible": False, "fixedrange": True}
    return {
        "data": [*drawn, _nodes(place, pairs, directed)],
        "layout": {
            "xaxis": bare,
            "yaxis": {**bare, "scaleanchor": "x"},
            "showlegend": bool(layers),
            "legend": {"orientation": "h"},
            "margin": {"l": 10, "r": 10, "t": 10, "b": 10},
        },
    }


def _pairs(text: str) -> tuple[Pairs, bool]:
    """Return the edges of `0-1 1-2`, or the arcs of `0>1 1>2` and True."""
    directed = ">" in text
    ends = (word.split(">" if directed else "-") for word in text.split())
    return [(int(i), int(j)) for i, j in ends], directed


@lru_cache(maxsize=16)
def _places(count: int, pairs: tuple[tuple[int, int], ...], circle: bool) -> Any:
    """Return the place of each node; a page that is updated asks for the same ones again."""
    import networkx as nx

    network = nx.Graph(pairs)
    network.add_nodes_from(range(count))
    found = nx.circular_layout(sorted(network))
    if not circle:
        found = nx.spring_layout(network, pos=found, seed=0, iterations=100)
    return np.array([found[node] for node in range(count)])


def _links(place: Any, pairs: Pairs, directed: bool, colour: str, name: str) -> dict[str, Any]:
    """Return a trace of lines or arrows; the tips are markers that point away from the start."""
    tails, heads = (place[[pair[k] for pair in pairs]].reshape(-1, 2) for k in (0, 1))
    if directed:
        heads = tails + SHORT * (heads - tails)
    x, y = (
        [
            value
            for start, end in zip(numbers(tails[:, k]), numbers(heads[:, k]), strict=True)
            for value in (start, end, None)
        ]
        for k in (0, 1)
    )
    arrows = {
        "symbol": "arrow",
        "angleref": "previous",
        "size": [0, 9, 0] * len(pairs),
        "color": colour,
        "opacity": 1,
    }
    return {
        "type": "scatter",
        "mode": "lines+markers" if directed else "lines",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": colour, "width": 1},
        "hoverinfo": "skip",
        **({"marker": arrows} if directed else {}),
    }


def _nodes(place: Any, pairs: Pairs, directed: bool) -> dict[str, Any]:
    """Return the trace of the nodes, coloured by degree; of a directed graph, by targets."""
    count = len(place)
    ends = Counter(node for pair in pairs for node in (pair[:1] if directed else pair))
    degrees = [ends[node] for node in range(count)]
    what = "targets" if directed else "degree"
    return {
        "type": "scatter",
        "mode": "markers+text" if count <= 64 else "markers",
        "showlegend": False,
        "x": numbers(place[:, 0]),
        "y": numbers(place[:, 1]),
        "text": [str(node) for node in range(count)],
        "customdata": degrees,
        "hovertemplate": f"node %{{text}}: {what} %{{customdata}}<extra></extra>",
        "textfont": {"size": 9, "color": "#ffffff"},
        "marker": {
            "size": 20 if count <= 64 else 8,
            "color": degrees,
            "colorscale": [[0, "#4477aa"], [1, "#aa3377"]],
            "showscale": len(set(degrees)) > 1,
            "colorbar": {
                "title": {"text": what},
                "thickness": 12,
                "dtick": max(1, round((max(degrees) - min(degrees)) / 8)),
            },
        },
    }
