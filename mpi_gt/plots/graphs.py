"""Pictures of graphs: nodes coloured by degree, edges, arcs as arrows, a panel for each layer."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import plain, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..graphs import Network
    from ..graphs.shapes import Shape

Array = NDArray[Any]

MOST_NODES, MOST_EDGES = 4096, 100_000  # of a picture; the layout takes longer than anybody waits
MOST_LAYERS = 16  # panels of a picture


def why_not_drawn(network: "Network") -> str:
    """Return why a network is too large for a picture, "" if it is not."""
    if network.nodes <= MOST_NODES and network.union.edges <= MOST_EDGES:
        return ""
    return (
        f"no picture: it would show {network.nodes} nodes and {network.union.edges} edges, and "
        f"{MOST_NODES} and {MOST_EDGES} are the most"
    )


def draw_network(network: "Network", title: str, target: Path) -> None:
    """Draw a network to the file `target`, each layer of a changing one beside the others."""
    from matplotlib.figure import Figure

    layers = network.shapes[:MOST_LAYERS]
    columns = math.ceil(math.sqrt(len(layers)))
    rows = math.ceil(len(layers) / columns)
    side = 6 if len(layers) == 1 else 3.6
    figure = Figure(figsize=(side * columns, side * rows), dpi=150, layout="constrained")
    panels = np.ravel(figure.subplots(rows, columns, squeeze=False))
    place = _places(network)
    for number, (axes, shape) in enumerate(zip(panels, layers, strict=False)):
        dots = _draw(axes, shape, place, 400 if len(layers) == 1 else 150)
        if len(layers) > 1:
            axes.set_title(f"layer {number}", fontsize=9)
    for axes in panels:
        axes.set_axis_off()
    if len(layers) == 1:
        _add_scale(figure, dots, panels[0], layers[0])
        panels[0].set_title(plain(title))
    else:
        left = len(network.shapes) - len(layers)
        more = f"\nthe first {len(layers)} layers; {left} more are not drawn" if left else ""
        figure.suptitle(plain(title) + more)
    save(figure, target)


def _places(network: "Network") -> Array:
    """Return the place of each node; the layers of a changing graph share a circle."""
    import networkx as nx

    if network.changes:
        angles = 2 * np.pi * np.arange(network.nodes) / network.nodes
        return np.stack((np.cos(angles), np.sin(angles)), axis=1)
    graph = nx.Graph(network.graph)
    found = nx.spring_layout(graph, pos=nx.circular_layout(graph), seed=0, iterations=200)
    return np.array([found[node] for node in range(network.nodes)])


def _draw(axes: "Axes", shape: "Shape", place: Array, largest: int) -> Any:
    """Draw one layer with dots of at most this size; return them."""
    from matplotlib.collections import LineCollection

    tails, heads = place[shape.sources], place[shape.receivers]
    if shape.directed:
        ways = heads - tails
        arrow: dict[str, Any] = {
            "angles": "xy",
            "scale_units": "xy",
            "scale": 1,
            "color": "0.6",
            "zorder": 1,
        }
        lengths = np.linalg.norm(ways, axis=1, keepdims=True)
        # the tip ends at the edge of the dot, or it would be hidden
        short = ways * np.maximum(0.5, 1 - 0.07 / np.maximum(lengths, 1e-9))
        axes.quiver(tails[:, 0], tails[:, 1], short[:, 0], short[:, 1], width=0.004, **arrow)
    else:
        once = shape.sources < shape.receivers
        segments = np.stack((tails[once], heads[once]), axis=1)
        lines: Any = list(segments)
        axes.add_collection(LineCollection(lines, colors="0.7", linewidths=0.8, zorder=1))
    degrees = shape.out_degrees
    size = max(20, min(largest, 12000 / shape.nodes))
    dots = axes.scatter(place[:, 0], place[:, 1], c=degrees, s=size, cmap="viridis", zorder=2)
    if shape.nodes <= 64:
        _number(axes, place, degrees)
    axes.margins(0.08)
    return dots


def _number(axes: "Axes", place: Array, degrees: Sequence[int] | Array) -> None:
    middle = (min(degrees) + max(degrees)) / 2
    for node, (x, y) in enumerate(place.tolist()):
        colour = "white" if degrees[node] <= middle else "black"
        axes.annotate(str(node), (x, y), ha="center", va="center", fontsize=8, color=colour)


def _add_scale(figure: Any, dots: Any, axes: "Axes", shape: "Shape") -> None:
    """Add the colours of the degrees, where these differ."""
    ticks = sorted(set(shape.out_degrees.tolist()))
    if len(ticks) > 1:
        ticks = ticks[:: len(ticks) // 8 + 1]
        label = "targets" if shape.directed else "degree"
        figure.colorbar(dots, ax=axes, label=label, shrink=0.6, ticks=ticks)
