"""Webs: undirected graphs with whole-number weights, as the partition of a graph needs them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .network import Arcs

Array = NDArray[Any]


@dataclass(frozen=True)
class Web:
    """Edges with weights among n nodes with sizes; each edge is there from both of its ends."""

    starts: Array  # (n + 1,): the edges of node i are starts[i] to starts[i + 1]
    ends: Array  # the other end of each edge
    weights: Array
    sizes: Array  # the number of nodes of the original graph that each one stands for

    @property
    def nodes(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def rows(self) -> Array:
        """Return the node that each entry of `ends` belongs to."""
        return np.repeat(np.arange(self.nodes), np.diff(self.starts))

    def around(self, node: int) -> tuple[Array, Array]:
        """Return the neighbours of a node and the weights of the edges to them."""
        here = slice(self.starts[node], self.starts[node + 1])
        return self.ends[here], self.weights[here]

    def cut(self, parts: Array) -> int:
        """Return the weight of the edges between parts; `parts` holds that of each node."""
        return int(self.weights[parts[self.rows] != parts[self.ends]].sum()) // 2

    def part(self, nodes: Array) -> "Web":
        """Return the web of these nodes, which are ascending, and of the edges among them."""
        begins, counts = self.starts[nodes], self.starts[nodes + 1] - self.starts[nodes]
        skipped = np.cumsum(counts) - counts
        edges = np.repeat(begins - skipped, counts) + np.arange(counts.sum())
        places = np.searchsorted(nodes, self.ends[edges])
        places[places == len(nodes)] = 0
        inside = nodes[places] == self.ends[edges]
        rows = np.repeat(np.arange(len(nodes)), counts)[inside]
        starts = np.searchsorted(rows, np.arange(len(nodes) + 1))
        return Web(starts, places[inside], self.weights[edges][inside], self.sizes[nodes])

    def merged(self, label: Array) -> "Web":
        """Return the web in which all nodes of a label are one."""
        sizes = np.bincount(label, self.sizes).astype(np.int64)
        return added_up(label[self.rows], label[self.ends], self.weights, sizes)


def added_up(rows: Array, ends: Array, weights: Array, sizes: Array) -> Web:
    """Return the web with these entries; those of the same ends are one, and loops none."""
    proper = rows != ends
    codes, inverse = np.unique(rows[proper] * len(sizes) + ends[proper], return_inverse=True)
    summed = np.bincount(inverse, weights[proper], len(codes)).astype(np.int64)
    starts = np.searchsorted(codes, np.arange(len(sizes) + 1) * len(sizes))
    return Web(starts, codes % max(1, len(sizes)), summed, sizes)


def web_of(arcs: Arcs, directed: bool) -> Web:
    """Return the web of a network: the weight of an edge is the number of arcs in all layers.

    Each layer has its turn equally often, so that this is how often the edge is used.
    """
    sizes = np.ones(arcs.nodes, np.int64)
    if len(arcs.layers) == 1 and not directed:  # it has the edges in both directions already
        (layer,) = arcs.layers
        return Web(layer.starts, layer.sources, np.ones(len(layer.sources), np.int64), sizes)
    tails = np.concatenate([layer.sources for layer in arcs.layers])
    heads = np.concatenate([layer.receivers for layer in arcs.layers])
    rows, ends = np.concatenate((heads, tails)), np.concatenate((tails, heads))
    return added_up(rows, ends, np.ones(len(rows)), sizes)
