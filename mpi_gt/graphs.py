"""Named graphs, edge-list files, mixing matrices, and the checks that both must pass.

Only root builds a graph, and networkx is slow to import: it is imported where it is used.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import UserError
from .files import read_array
from .spec import convert_options, nearest, split

if TYPE_CHECKING:
    from networkx import Graph

Array = NDArray[Any]

REDRAWS = 1000


@dataclass(frozen=True)
class Row:
    """One node's row of the mixing matrix: all that a rank needs to know of the graph."""

    node: int
    neighbours: tuple[int, ...]  # ascending
    weights: Array  # A_ij for each neighbour j
    own: float  # A_ii


@dataclass(frozen=True)
class Network:
    """A checked graph with its mixing matrix A."""

    graph: "Graph"
    matrix: Array

    def row(self, node: int) -> Row:
        neighbours = tuple(sorted(self.graph.neighbors(node)))
        weights = self.matrix[node, list(neighbours)]
        return Row(node, neighbours, weights, float(self.matrix[node, node]))

    def facts(self) -> dict[str, Any]:
        degrees = [degree for _, degree in self.graph.degree()]
        return {
            "nodes": len(self.graph),
            "edges": self.graph.number_of_edges(),
            "degree_min": min(degrees),
            "degree_mean": sum(degrees) / len(degrees),
            "degree_max": max(degrees),
            "rho_A": rho(self.matrix),
        }


def ring(n: int) -> "Graph":
    import networkx as nx

    # networkx closes a ring of one node by a loop
    return nx.cycle_graph(n) if n > 2 else nx.path_graph(n)


def path(n: int) -> "Graph":
    import networkx as nx

    return nx.path_graph(n)


def complete(n: int) -> "Graph":
    import networkx as nx

    return nx.complete_graph(n)


def star(n: int) -> "Graph":
    import networkx as nx

    return nx.star_graph(n - 1)  # networkx counts the leaves


def er(n: int, *, p: float = 0.7, seed: int = 0) -> "Graph":
    """Erdős–Rényi, drawn again with the next sub-seed until it is connected."""
    import networkx as nx

    if not 0 < p <= 1:
        raise ValueError(f"p must be in (0, 1], not {p}")
    if seed < 0:
        raise ValueError(f"seed must be >= 0, not {seed}")
    for attempt in range(REDRAWS):
        sub_seed = np.random.SeedSequence([seed, attempt]).generate_state(1)[0] if attempt else seed
        graph = nx.gnp_random_graph(n, p, seed=int(sub_seed))
        if nx.is_connected(graph):
            return graph
    raise ValueError(f"{REDRAWS} graphs with p={p} on {n} nodes, none connected: take a larger p")


GRAPHS: dict[str, Callable[..., "Graph"]] = {
    "complete": complete,
    "er": er,
    "path": path,
    "ring": ring,
    "star": star,
}


def parse_graph(text: str) -> Callable[[int], "Graph"]:
    """What builds the graph that `text` names for n nodes: a registered name, or a file."""
    name, _, _ = text.partition(":")
    if name.strip() in GRAPHS:
        name, options = split(text)
        factory = GRAPHS[name]
        converted = convert_options(f"graph {name}", factory, options)

        def build(n: int) -> "Graph":
            try:
                return factory(n, **converted)
            except ValueError as error:
                raise UserError(f"graph {name}: {error}") from None

        return build
    if Path(text).is_file():
        return lambda n: read_edge_list(Path(text), n)
    raise UserError(f"'{text}' is neither a file nor a graph{nearest(name, GRAPHS)}")


def read_edge_list(path: Path, n: int) -> "Graph":
    """A file of lines `i j`, nodes numbered from 0; `#` begins a comment."""
    import networkx as nx

    graph = nx.Graph()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path} as an edge list: {error}") from None
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            i, j = (int(word) for word in words)
        except ValueError:
            raise UserError(
                f"{path}, line {number}: expected two node numbers, found '{line.strip()}'"
            ) from None
        if min(i, j) < 0 or i == j:
            raise UserError(f"{path}, line {number}: ({i}, {j}) cannot be an edge")
        graph.add_edge(i, j)
    if not graph:
        raise UserError(f"{path} lists no edges")
    count = max(graph) + 1
    if count != n:
        raise UserError(f"{path} is a graph of {count} nodes, but there are {n} ranks")
    graph.add_nodes_from(range(n))
    return graph


def build_network(graph: str | None, weights: str | None, n: int) -> Network:
    """The graph for n nodes and its mixing matrix; without a graph, that of the matrix's entries.

    The weights are Metropolis's, or a matrix from a .npy file.
    """
    import networkx as nx

    given = None if weights is None else read_matrix(Path(weights), n)
    if graph is not None or given is None:
        built = parse_graph(graph or "er")(n)
    else:
        built = nx.from_numpy_array((given != 0) & ~np.eye(n, dtype=bool))
    require_connected(built)
    matrix = metropolis(built) if given is None else given
    check_weights(matrix, built, "the metropolis weights" if weights is None else weights)
    return Network(built, (matrix + matrix.T) / 2)


def require_connected(graph: "Graph") -> None:
    import networkx as nx

    components = list(nx.connected_components(graph))
    if len(components) > 1:
        first, second = (min(component) for component in components[:2])
        raise UserError(
            f"the graph is not connected: no path joins nodes {first} and {second} "
            f"({len(components)} components)"
        )


def metropolis(graph: "Graph") -> Array:
    """A_ij = 1 / (1 + max(deg_i, deg_j)) on edges, the rest of each row on the diagonal."""
    matrix = np.zeros((len(graph), len(graph)))
    for i, j in graph.edges:
        matrix[i, j] = matrix[j, i] = 1 / (1 + max(graph.degree[i], graph.degree[j]))
    matrix[np.diag_indices_from(matrix)] = 1 - matrix.sum(axis=1)
    return matrix


def read_matrix(path: Path, n: int) -> Array:
    matrix = read_array(path)
    if matrix.shape != (n, n):
        raise UserError(f"{path} has shape {matrix.shape}, but {n} ranks need ({n}, {n})")
    return matrix


def check_weights(matrix: Array, graph: "Graph", name: str) -> None:
    """Symmetric, doubly stochastic, zero off the graph, rho_A < 1; or an error naming the entry."""
    n = len(matrix)
    for i, j in zip(*np.nonzero(np.abs(matrix - matrix.T) > 1e-12), strict=True):
        raise UserError(
            f"{name}: not symmetric, entry ({i}, {j}) is {matrix[i, j]:.17g} "
            f"and ({j}, {i}) is {matrix[j, i]:.17g}"
        )
    for i in np.nonzero(np.abs(matrix.sum(axis=1) - 1) > 1e-10)[0]:
        raise UserError(f"{name}: row {i} sums to {math.fsum(matrix[i]):.17g}, not 1")
    for i, j in zip(*np.nonzero(matrix), strict=True):
        if i != j and not graph.has_edge(i, j):
            raise UserError(
                f"{name}: entry ({i}, {j}) is {matrix[i, j]:.6g}, but the graph has no such edge"
            )
    if n > 1 and (radius := rho(matrix)) >= 1 - 1e-12:
        raise UserError(f"{name}: rho_A is {radius:.12g}, so averages never spread; it must be < 1")


def rho(matrix: Array) -> float:
    """rho_A = rho(A - 11'/n), for a symmetric A."""
    return float(np.abs(np.linalg.eigvalsh(matrix - 1 / len(matrix))).max())
