"""Graphs and mixing matrices, built from specifications or files and checked."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..spec import convert_options, nearest, split
from .families import FAMILIES, from_networkx
from .files import read_graph
from .network import Arcs, Row, layer_of_matrix
from .weights import WEIGHTS, check_weights, read_matrix, rho

if TYPE_CHECKING:
    from networkx import Graph

Array = NDArray[Any]

MOST_EDGES = 4000  # that run.json lists; a picture of more would be black

__all__ = [
    "FAMILIES",
    "WEIGHTS",
    "Network",
    "Row",
    "build_network",
    "parse_graph",
    "parse_weights",
    "rho",
]


@dataclass(frozen=True)
class Network:
    """A checked graph with its mixing matrix A."""

    graph: "Graph"
    matrix: Array

    def row(self, node: int) -> Row:
        """Return the row of one node."""
        return self.arcs.row(node)

    @cached_property
    def arcs(self) -> Arcs:
        """Return the layers that the rows are cut from."""
        import networkx as nx

        edges = nx.to_numpy_array(self.graph, nodelist=range(len(self.graph)), weight=None) != 0
        return Arcs((layer_of_matrix(self.matrix, edges),))

    def diameter(self) -> int:
        """Return the largest distance between two nodes."""
        import networkx as nx

        return int(nx.diameter(self.graph))

    def facts(self) -> dict[str, Any]:
        """Return the facts for run.json."""
        degrees = [degree for _, degree in self.graph.degree()]
        return {
            "nodes": len(self.graph),
            "edges": self.graph.number_of_edges(),
            "degree_min": min(degrees),
            "degree_mean": sum(degrees) / len(degrees),
            "degree_max": max(degrees),
            "rho_A": rho(self.matrix),
            # a report draws the graph without its file and without this version of networkx
            **({"edge_list": self._edge_list()} if len(self.graph.edges) <= MOST_EDGES else {}),
        }

    def _edge_list(self) -> str:
        """Return the edges as one text: in a list, run.json would have a line per number."""
        return " ".join(f"{i}-{j}" for i, j in sorted(map(sorted, self.graph.edges)))


def parse_graph(text: str) -> Callable[[int], "Graph"]:
    """Return the function that builds, for n nodes, the graph that `text` names.

    `text` is a family with its options, `nx.NAME` with options, or a file.
    """
    if text.partition(":")[0].strip() not in FAMILIES:
        with contextlib.suppress(OSError, ValueError):  # no file can have this name
            if Path(text).is_file():
                return lambda n: read_graph(Path(text), n)
    name, options = split(text)
    if name.startswith("nx."):
        return lambda n: from_networkx(name.removeprefix("nx."), options, n)
    if name not in FAMILIES:
        raise UserError(f"'{text}' is neither a file nor a known graph{nearest(name, FAMILIES)}")
    family = FAMILIES[name]
    converted = convert_options(f"graph {name}", family, options)

    def build(n: int) -> "Graph":
        try:
            return family(n, **converted)
        except ValueError as error:
            raise UserError(f"graph {name}: {error}") from None

    return build


def parse_weights(text: str) -> Callable[["Graph"], Array] | Path:
    """Return the rule for weights that `text` names, or the path of a matrix."""
    if text in WEIGHTS:
        return WEIGHTS[text]
    if Path(text).suffix.lower() in (".npy", ".csv"):
        return Path(text)
    raise UserError(
        f"'{text}' is neither a .npy or .csv file nor a rule for weights{nearest(text, WEIGHTS)}"
    )


def build_network(graph: str | None, weights: str | None, n: int) -> Network:
    """Return the graph for n nodes with its mixing matrix, both checked.

    Without a graph, a matrix from a file defines it: each non-zero entry is an edge.
    """
    import networkx as nx

    rule = parse_weights(weights or "metropolis")
    given = read_matrix(rule, n) if isinstance(rule, Path) else None
    if graph is None and given is not None:
        built = nx.from_numpy_array((given != 0) & ~np.eye(n, dtype=bool))
    else:
        built = parse_graph(graph or "er")(n)
    _require_connected(built)
    matrix = rule(built) if not isinstance(rule, Path) else given
    assert matrix is not None
    check_weights(matrix, built, weights or "metropolis")
    return Network(built, (matrix + matrix.T) / 2)


def _require_connected(graph: "Graph") -> None:
    """Raise UserError, naming two nodes that no path joins, unless the graph is connected."""
    import networkx as nx

    components = list(nx.connected_components(graph))
    if len(components) > 1:
        first, second = (min(component) for component in components[:2])
        raise UserError(
            f"the graph is not connected: no path joins nodes {first} and {second} "
            f"({len(components)} components)"
        )
