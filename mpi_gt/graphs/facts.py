"""Facts about a network for run.json: degrees, rates, and the edges for a picture."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .network import Turns
from .shapes import Shape

MOST_EDGES = 4000  # that run.json lists; a picture of more would be black


def facts_of(
    turns: Turns,
    shapes: Sequence[Shape],
    union: Shape,
    kinds: Sequence[str],
    rates: Mapping[str, float | None],
) -> dict[str, Any]:
    """Return the facts of a network.

    Degrees count the nodes that one sends to: of a changing graph, in one step. `edges` are arcs
    if `directed` is there. `layers` has an item for each layer of a changing graph.
    """
    degrees = np.array([shape.out_degrees for shape in shapes])
    facts: dict[str, Any] = {
        "nodes": union.nodes,
        "edges": union.edges,
        "degree_min": int(degrees.min()),
        "degree_mean": int(degrees.sum()) / degrees.size,
        "degree_max": int(degrees.max()),
        **{f"rho_{kind}": rate for kind, rate in rates.items()},
    }
    # a report draws the graph without its file and without this version of networkx
    if union.edges <= MOST_EDGES:
        facts["edge_list"] = edge_list(union)
    if union.directed:
        facts["directed"] = True
        facts["kinds"] = list(kinds)
    if len(shapes) > 1:
        facts["turns"] = "in turn" if turns.seed is None else f"random:seed={turns.seed}"
        listed = sum(shape.edges for shape in shapes) <= MOST_EDGES
        facts["layers"] = [
            {
                "edges": shape.edges,
                "directed": shape.directed,
                **({"edge_list": edge_list(shape)} if listed else {}),
            }
            for shape in shapes
        ]
    return facts


def edge_list(shape: Shape) -> str:
    """Return edges as `0-1 1-2`, arcs as `0>1 1>2`.

    It is one text: in a list, run.json would have a line per number.
    """
    if shape.directed:
        order = np.lexsort((shape.receivers, shape.sources))
        pairs = zip(shape.sources[order].tolist(), shape.receivers[order].tolist(), strict=True)
        return " ".join(f"{i}>{j}" for i, j in pairs)
    once = shape.receivers < shape.sources
    pairs = zip(shape.receivers[once].tolist(), shape.sources[once].tolist(), strict=True)
    return " ".join(f"{i}-{j}" for i, j in pairs)
