"""Shapes: the arcs of one layer of a network before they have weights, as arrays."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .network import KINDS, Layer

if TYPE_CHECKING:
    from networkx import Graph

Array = NDArray[Any]

TOLERANCE = 1e-12  # of sums of weights that should be one


@dataclass(frozen=True)
class Shape:
    """Arcs among n nodes, sorted by receiver and then by source; an edge is two arcs."""

    nodes: int
    receivers: Array
    sources: Array
    directed: bool
    fixed: bool = False  # no rule for weights applies: all that one hears counts the same

    @cached_property
    def in_degrees(self) -> Array:
        """Return the number of sources of each node."""
        return np.bincount(self.receivers, minlength=self.nodes)

    @cached_property
    def out_degrees(self) -> Array:
        """Return the number of targets of each node."""
        return np.bincount(self.sources, minlength=self.nodes)

    @property
    def edges(self) -> int:
        """Return the number of edges, of a directed shape that of arcs."""
        return len(self.sources) if self.directed else len(self.sources) // 2


def shape_of_arcs(nodes: int, tails: Any, heads: Any, directed: bool = True) -> Shape:
    """Return the shape with these arcs, without loops and each arc once; an edge counts as both."""
    tails, heads = (np.asarray(ends, np.int64).ravel() for ends in (tails, heads))
    if not directed:
        tails, heads = np.concatenate((tails, heads)), np.concatenate((heads, tails))
    proper = tails != heads
    codes = np.sort(heads[proper] * nodes + tails[proper])
    codes = codes[np.append(True, codes[1:] != codes[:-1])[: len(codes)]]
    return Shape(nodes, codes // nodes, codes % nodes, directed, directed)


def shape_of_graph(graph: "Graph") -> Shape:
    """Return the shape of a graph of networkx whose nodes are 0 to n-1."""
    ends = np.fromiter((node for edge in graph.edges() for node in edge[:2]), np.int64)
    return shape_of_arcs(len(graph), ends[::2], ends[1::2], graph.is_directed())


def graph_of_shape(shape: Shape) -> "Graph":
    """Return the shape as a graph of networkx."""
    import networkx as nx

    graph = nx.empty_graph(shape.nodes, nx.DiGraph if shape.directed else nx.Graph)
    graph.add_edges_from(zip(shape.sources.tolist(), shape.receivers.tolist(), strict=True))
    return graph


def union(shapes: "list[Shape]") -> Shape:
    """Return all arcs of several shapes together, directed if one of them is."""
    if len(shapes) == 1:
        return shapes[0]
    tails = np.concatenate([shape.sources for shape in shapes])
    heads = np.concatenate([shape.receivers for shape in shapes])
    made = shape_of_arcs(shapes[0].nodes, tails, heads)
    return Shape(made.nodes, made.receivers, made.sources, any(each.directed for each in shapes))


def pull_push_layer(shape: Shape) -> Layer:
    """Return a layer in which each node weighs what it hears, or what it sends, equally.

    The weights of `pull` are 1 / (1 + in-degree of the receiver), those of `push`
    1 / (1 + out-degree of the sender). Where these are doubly stochastic, they are A as well.
    """
    pull, push = 1 / (1 + shape.in_degrees), 1 / (1 + shape.out_degrees)
    weights = {"pull": pull[shape.receivers], "push": push[shape.sources]}
    own = {"pull": pull, "push": push}
    columns = pull + np.bincount(shape.sources, weights["pull"], minlength=shape.nodes)
    if np.abs(columns - 1).max() <= TOLERANCE:
        weights["A"], own["A"] = weights["pull"], own["pull"]
    return Layer(starts_of(shape), shape.sources, _in_order(weights), _in_order(own))


def starts_of(shape: Shape) -> Array:
    """Return where the arcs into each node begin, and their number at the end."""
    return np.concatenate(([0], np.cumsum(shape.in_degrees)))


def _in_order(kinds: dict[str, Array]) -> dict[str, Array]:
    return {kind: kinds[kind] for kind in KINDS if kind in kinds}


def shape_of_layer(layer: Layer) -> Shape:
    """Return the arcs of a layer; it is directed unless each arc has its reverse and weight."""
    codes = layer.receivers * layer.nodes + layer.sources
    reverse = layer.sources * layer.nodes + layer.receivers
    order = np.argsort(reverse, kind="stable")
    both = np.array_equal(reverse[order], codes)
    symmetric = both and all(
        np.array_equal(weights[order], weights) for weights in layer.weights.values()
    )
    return Shape(layer.nodes, layer.receivers, layer.sources, not symmetric)
