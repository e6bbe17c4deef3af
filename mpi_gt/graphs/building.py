"""The building of a network: graph and mixing matrices from specifications or files, checked."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..spec import nearest
from .changing import matchings, parse_matchings
from .checks import diameter, require_both_ways, require_connected
from .facts import facts_of
from .network import KINDS, Arcs, Layer, Row, Turns, layer_of_matrix
from .parsing import parse_layers
from .shapes import (
    Shape,
    graph_of_shape,
    pull_push_layer,
    shape_of_graph,
    shape_of_layer,
    starts_of,
    union,
)
from .spectrum import rates
from .weights import SPARSE, WEIGHTS, check_weights, edge_weights, read_matrix

if TYPE_CHECKING:
    from networkx import Graph

Array = NDArray[Any]

DENSE = 4096
"""Nodes up to which the weights of an undirected graph come from a dense matrix.

The sums of its rows are rounded otherwise than sums of the weights alone, and the bits of results
depend on them.
"""


@dataclass(frozen=True)
class Network:
    """A checked network: layers of weighted arcs, of which a static graph has one."""

    arcs: Arcs

    def row(self, node: int) -> Row:
        """Return the row of one node."""
        return self.arcs.row(node)

    @property
    def nodes(self) -> int:
        return self.arcs.nodes

    @property
    def changes(self) -> bool:
        """Return whether there are several layers."""
        return len(self.arcs.layers) > 1

    @cached_property
    def shapes(self) -> list[Shape]:
        """Return the arcs of each layer, directed unless its weights are symmetric."""
        return [shape_of_layer(layer) for layer in self.arcs.layers]

    @cached_property
    def union(self) -> Shape:
        """Return the arcs of all layers together."""
        return union(self.shapes)

    @property
    def directed(self) -> bool:
        """Return whether a layer is directed."""
        return self.union.directed

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of matrices that all layers have."""
        layers = self.arcs.layers
        return tuple(kind for kind in KINDS if all(kind in layer.weights for layer in layers))

    @cached_property
    def graph(self) -> "Graph":
        """Return all arcs as a graph of networkx."""
        return graph_of_shape(self.union)

    @cached_property
    def matrix(self) -> Array:
        """Return the dense A of a static graph; raise UserError if there is no such matrix."""
        if self.changes:
            raise UserError("a graph that changes has no single mixing matrix A")
        if "A" not in self.kinds:
            raise UserError("this directed graph has no doubly stochastic mixing matrix A")
        return self.arcs.layers[0].matrix("A")

    @cached_property
    def rates(self) -> dict[str, float | None]:
        """Return rho_A as "A"; without a doubly stochastic A the rates of "pull" and "push"."""
        return rates(self.arcs, not self.directed)

    def diameter(self) -> tuple[int, bool]:
        """Return the largest distance between two nodes, and whether that is sure.

        Of a huge graph it is a lower bound. Of a changing graph, all layers count together.
        """
        return diameter(self.union)

    def digest(self) -> str:
        """Return a hash of all arcs, weights and turns; of a static A, of that dense matrix."""
        if not self.changes and not self.directed and self.nodes <= DENSE:
            return hashlib.sha256(self.matrix.tobytes()).hexdigest()
        digest = hashlib.sha256(repr((self.nodes, self.arcs.turns)).encode())
        for layer in self.arcs.layers:
            digest.update(repr((len(layer.sources), tuple(layer.weights))).encode())
            arrays = (layer.starts, layer.sources, *layer.weights.values(), *layer.own.values())
            for array in arrays:
                digest.update(array.tobytes())
        return digest.hexdigest()

    def facts(self) -> dict[str, Any]:
        """Return the facts for run.json."""
        return facts_of(self.arcs.turns, self.shapes, self.union, self.kinds, self.rates)


def parse_weights(text: str) -> Callable[["Graph"], Array] | Path:
    """Return the rule for weights that `text` names, or the path of a matrix."""
    if text in WEIGHTS:
        return WEIGHTS[text]
    if Path(text).suffix.lower() in (".npy", ".csv"):
        return Path(text)
    raise UserError(
        f"'{text}' is neither a .npy or .csv file nor a rule for weights{nearest(text, WEIGHTS)}"
    )


def build_network(
    graph: str | None, weights: str | None, n: int, matchings: str | None = None
) -> Network:
    """Return the network of n nodes with its mixing matrices, all checked.

    Without a graph, a matrix from a file defines it: each non-zero entry is an edge. `matchings`
    splits an undirected graph into layers.
    """
    rule = parse_weights(weights or "metropolis")
    given = read_matrix(rule, n) if isinstance(rule, Path) else None
    if graph is None and given is not None:
        built = [_graph_of_matrix(given)]
    else:
        built = parse_layers(graph or "er")(n)
    seed = None if matchings is None else parse_matchings(matchings)
    if matchings is not None:
        built = _matched(built, weights)
    _require_rule_fits(built, weights, given is not None)
    shapes = [_shape_of(each) for each in built]
    require_connected(union(shapes), len(shapes))
    require_both_ways(shapes)
    name = weights or "metropolis"
    layers = [_weighted(each, name, rule, given, len(built) == 1) for each in built]
    network = Network(Arcs(tuple(layers), Turns(len(layers), seed)))
    if network.changes and n <= DENSE:
        _require_mixing(network)
    return network


def _graph_of_matrix(matrix: Array) -> "Graph":
    """Return the graph with an edge for each non-zero entry."""
    import networkx as nx

    return nx.from_numpy_array((matrix != 0) & ~np.eye(len(matrix), dtype=bool))


def _shape_of(built: "Graph | Shape") -> Shape:
    return built if isinstance(built, Shape) else shape_of_graph(built)


def _matched(built: "list[Graph | Shape]", weights: str | None) -> "list[Graph | Shape]":
    """Return the matchings of an undirected graph; raise UserError for others."""
    if len(built) > 1:
        raise UserError("--matchings splits one graph, and this one has several layers already")
    shape = _shape_of(built[0])
    if shape.directed:
        raise UserError("--matchings is for undirected graphs, and this one is directed")
    if weights is not None:
        raise UserError("--matchings takes no --weights: each pair averages, with weights 1/2")
    return [*matchings(shape)]


def _require_rule_fits(built: "list[Graph | Shape]", weights: str | None, matrix: bool) -> None:
    """Raise UserError for --weights with layers whose weights are fixed."""
    if weights is None:
        return
    if any(isinstance(each, Shape) and each.fixed for each in built):
        raise UserError(
            f"--weights {weights} is for undirected graphs; the weights of directed and one-peer "
            "graphs are 1/(1 + in-degree) for pull and 1/(1 + out-degree) for push"
        )
    if matrix and len(built) > 1:
        raise UserError(f"--weights {weights} is one matrix, but the graph has {len(built)} layers")


def _weighted(
    built: "Graph | Shape", name: str, rule: Any, given: Array | None, alone: bool
) -> Layer:
    """Return a layer with its weights, checked; `alone`: it has to mix by itself."""
    if isinstance(built, Shape) and built.fixed:
        return pull_push_layer(built)
    if isinstance(built, Shape) or len(built) > DENSE:
        return _sparse_layer(_shape_of(built), name, given)
    matrix = rule(built) if given is None else given
    check_weights(matrix, built, name, alone)
    shape = shape_of_graph(built)
    mask = np.zeros((len(built), len(built)), bool)
    mask[shape.receivers, shape.sources] = True
    return layer_of_matrix((matrix + matrix.T) / 2, mask)


def _sparse_layer(shape: Shape, name: str, given: Array | None) -> Layer:
    """Return a layer of a large graph, by a rule that needs no dense matrix."""
    if name not in SPARSE or given is not None:
        raise UserError(
            f"--weights {name} is for at most {DENSE} nodes, and this graph has {shape.nodes}; "
            f"{', '.join(SPARSE)} are for any number"
        )
    weights, own = edge_weights(name, shape)
    return Layer(
        starts_of(shape),
        shape.sources,
        dict.fromkeys(KINDS, weights),
        dict.fromkeys(KINDS, own),
    )


def _require_mixing(network: Network) -> None:
    """Raise UserError unless the layers of a period together bring all nodes to the average."""
    for kind, rate in network.rates.items():
        if rate is not None and rate >= 1 - 1e-12:
            raise UserError(
                f"the layers together do not reach the average: the rate of {kind} is {rate:.12g} "
                "and must be < 1"
            )
