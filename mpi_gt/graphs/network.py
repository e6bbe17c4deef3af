"""A network: layers of weighted arcs, and the row of it that each rank gets.

A static graph is a network of one layer. A changing graph has several, and step t uses one of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .reach import reach_of

Array = NDArray[Any]

KINDS = ("A", "pull", "push")
"""The matrices that a vector may be mixed with: doubly stochastic, rows or columns of sum one."""


@dataclass(frozen=True)
class Turns:
    """Which layer step t uses: one after the other, or with a `seed` drawn for each t."""

    layers: int = 1
    seed: int | None = None

    def at(self, t: int) -> int:
        """Return the number of the layer of step t = 1, 2, ..."""
        if self.layers == 1:
            return 0
        if self.seed is None:
            return (t - 1) % self.layers
        return _drawn(self.layers, self.seed, t)


@lru_cache(maxsize=16)  # a step asks more than once
def _drawn(layers: int, seed: int, t: int) -> int:
    generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, t]))
    return int(generator.integers(layers))


@dataclass(frozen=True)
class LayerRow:
    """One node's part of one layer. Receivers apply the weights, those of `push` included."""

    sources: tuple[int, ...]  # the nodes that it hears, ascending
    targets: tuple[int, ...]  # the nodes that hear it, ascending
    weights: Mapping[str, Array]  # for each kind, W_ij for each source j
    own: Mapping[str, float]  # for each kind, W_ii
    places: tuple[int, ...]  # for each target, this node's index among the target's sources


@dataclass(frozen=True)
class Row:
    """One node's row of the mixing matrices: all that a rank needs to know about the graph."""

    node: int
    layers: tuple[LayerRow, ...]
    turns: Turns = Turns()
    reach: int | None = None
    """Arcs that suffice from any node to any other, all layers together; None if unknown."""

    @property
    def neighbours(self) -> tuple[int, ...]:
        """Return all nodes that this one hears, or that hear it, in some layer."""
        return tuple(sorted({*self.sources, *self.targets}))

    @property
    def sources(self) -> tuple[int, ...]:
        """Return the nodes that this one hears in some layer."""
        return tuple(sorted({j for layer in self.layers for j in layer.sources}))

    @property
    def targets(self) -> tuple[int, ...]:
        """Return the nodes that hear this one in some layer."""
        return tuple(sorted({j for layer in self.layers for j in layer.targets}))

    @property
    def weights(self) -> Array:
        """Return A_ij for each source j of a static graph."""
        (layer,) = self.layers
        return layer.weights["A"]

    @property
    def own(self) -> float:
        """Return A_ii of a static graph."""
        (layer,) = self.layers
        return layer.own["A"]


def undirected_row(node: int, neighbours: tuple[int, ...], weights: Array, own: float) -> Row:
    """Return a node's row of a static, undirected graph that nobody else's row is needed for.

    The places at the neighbours are unknown then, which the exchange rma needs.
    """
    kinds = dict.fromkeys(KINDS, weights)
    layer = LayerRow(neighbours, neighbours, kinds, dict.fromkeys(KINDS, own), ())
    return Row(node, (layer,))


@dataclass(frozen=True)
class Layer:
    """Weighted arcs j -> i among n nodes, kept by receiver: those into node i lie together."""

    starts: Array  # (n + 1,): the arcs into node i are starts[i] to starts[i + 1]
    sources: Array  # the tail j of each arc, ascending for each receiver
    weights: Mapping[str, Array]  # for each kind, the weight of each arc
    own: Mapping[str, Array]  # for each kind, the weight of each node on itself

    @property
    def nodes(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def receivers(self) -> Array:
        """Return the head i of each arc."""
        return np.repeat(np.arange(self.nodes), np.diff(self.starts))

    @cached_property
    def _by_source(self) -> tuple[Array, Array]:
        """Return the arcs sorted by source and then by receiver, and where each source's begin."""
        order = np.lexsort((self.receivers, self.sources))
        begins = np.searchsorted(self.sources[order], np.arange(self.nodes + 1))
        return order, begins

    @cached_property
    def out_degrees(self) -> Array:
        """Return the number of targets of each node."""
        return np.bincount(self.sources, minlength=self.nodes)

    def row(self, node: int) -> LayerRow:
        """Return the part of one node."""
        here = slice(self.starts[node], self.starts[node + 1])
        order, begins = self._by_source
        leaving = order[begins[node] : begins[node + 1]]
        targets = self.receivers[leaving]
        return LayerRow(
            tuple(self.sources[here].tolist()),
            tuple(targets.tolist()),
            {kind: weights[here].copy() for kind, weights in self.weights.items()},
            {kind: float(own[node]) for kind, own in self.own.items()},
            tuple((leaving - self.starts[targets]).tolist()),
        )

    def matrix(self, kind: str) -> Array:
        """Return the weights of a kind as a dense matrix."""
        dense = np.zeros((self.nodes, self.nodes))
        dense[self.receivers, self.sources] = self.weights[kind]
        dense[np.diag_indices(self.nodes)] = self.own[kind]
        return dense


@dataclass(frozen=True)
class Arcs:
    """The layers of a network with their order: what the ranks' rows are cut from."""

    layers: tuple[Layer, ...]
    turns: Turns = field(default_factory=Turns)

    @property
    def nodes(self) -> int:
        return self.layers[0].nodes

    @cached_property
    def reach(self) -> int:
        """Return how many arcs suffice from any node to any other, all layers together.

        It is the diameter; of a large graph, at most twice the diameter.
        """
        sources = [layer.sources for layer in self.layers]
        receivers = [layer.receivers for layer in self.layers]
        return reach_of(self.nodes, np.concatenate(sources), np.concatenate(receivers))

    def row(self, node: int) -> Row:
        """Return the row of one node."""
        layers = tuple(layer.row(node) for layer in self.layers)
        return Row(node, layers, self.turns, self.reach)


def layer_of_matrix(matrix: Array, mask: Array) -> Layer:
    """Return the layer of a doubly stochastic A with an arc j -> i wherever mask[i, j] is true."""
    receivers, sources = np.nonzero(mask)
    starts = np.searchsorted(receivers, np.arange(len(matrix) + 1))
    weights, own = matrix[receivers, sources], np.diagonal(matrix).copy()
    return Layer(starts, sources, dict.fromkeys(KINDS, weights), dict.fromkeys(KINDS, own))
