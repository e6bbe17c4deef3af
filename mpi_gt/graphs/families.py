"""Families of undirected graphs: functions that build a graph with nodes 0 to n-1.

networkx is imported inside the functions: its import is slow, and only root builds graphs. A graph
of networkx takes a kilobyte per node, so large ones with simple rules are arrays (`Shape`).
"""

import ast
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..memory import limited_memory
from ..spec import nearest
from .shapes import Shape, graph_of_shape, shape_of_arcs

if TYPE_CHECKING:
    from networkx import Graph

Array = NDArray[Any]
Built: TypeAlias = "Graph | Shape"

LARGE = 4096  # nodes from which on a graph is not one of networkx
MOST_EDGES = 2 * 10**7  # that are built
REDRAWS = 1000  # of a random graph that is not connected
LEAST_MEMORY, MEMORY_PER_NODE = 1 << 30, 1 << 13  # bytes that a generator of networkx may take


def ring(n: int) -> Built:
    """Build a ring: every node has two neighbours."""
    nodes = np.arange(n)
    return _built(n, nodes, (nodes + 1) % n)


def path(n: int) -> Built:
    """Build a path: a ring without one of its edges."""
    nodes = np.arange(n - 1)
    return _built(n, nodes, nodes + 1)


def star(n: int) -> Built:
    """Build a star: node 0 is a neighbour of all others."""
    leaves = np.arange(1, n)
    return _built(n, np.zeros_like(leaves), leaves)


def complete(n: int) -> "Graph":
    """Build a complete graph: every node is a neighbour of all others."""
    import networkx as nx

    _require_few(n * (n - 1) / 2)
    return nx.complete_graph(n)


def grid(n: int, *, rows: int | None = None) -> Built:
    """Build a rectangular grid.

    Options:
        rows >= 1, default as square as possible: rows, a divisor of n
    """
    return _lattice(n, rows, periodic=False)


def torus(n: int, *, rows: int | None = None) -> Built:
    """Build a torus: a grid whose opposite sides are joined.

    Options:
        rows >= 1, default as square as possible: rows, a divisor of n
    """
    return _lattice(n, rows, periodic=True)


def _lattice(n: int, rows: int | None, periodic: bool) -> Built:
    """Build a grid or, if periodic, a torus."""
    if rows is None:
        rows = max(divisor for divisor in range(1, math.isqrt(n) + 1) if n % divisor == 0)
    if rows < 1 or n % rows:
        raise ValueError(f"rows must divide the number of nodes, and {rows} does not divide {n}")
    if n <= LARGE:  # the order of its edges decides the last digits of fdla
        import networkx as nx

        lattice = nx.grid_2d_graph(rows, n // rows, periodic=periodic)
        return nx.convert_node_labels_to_integers(lattice, ordering="sorted")
    nodes = np.arange(n).reshape(rows, n // rows)
    right, below = np.roll(nodes, -1, axis=1), np.roll(nodes, -1, axis=0)
    last = None if periodic else -1  # a grid has no edges from its last row and column
    ends = ((nodes[:, :last], right[:, :last]), (nodes[:last], below[:last]))
    some, others = (np.concatenate([pair[k].ravel() for pair in ends]) for k in (0, 1))
    return _built(n, some, others)


def hypercube(n: int) -> Built:
    """Build a hypercube: the numbers of two neighbours differ in one bit."""
    if n & (n - 1):
        raise ValueError(f"the number of nodes must be a power of two, not {n}")
    nodes = np.repeat(np.arange(n), n.bit_length() - 1)
    return _built(n, nodes, nodes ^ np.tile(1 << np.arange(n.bit_length() - 1), n))


def exponential(n: int) -> Built:
    """Build a ring with edges at distances 1, 2, 4, 8, ... around it."""
    distances = 1 << np.arange((n - 1).bit_length())
    nodes = np.repeat(np.arange(n), len(distances))
    return _built(n, nodes, (nodes + np.tile(distances, n)) % n)


def er(n: int, *, p: float = 0.7, seed: int = 0) -> "Graph":
    """Build an Erdős–Rényi graph: each edge exists with probability p.

    Options:
        p in (0, 1]: probability of an edge
        seed >= 0: random seed; the draw is repeated until the graph is connected
    """
    import networkx as nx

    if not 0 < p <= 1:
        raise ValueError(f"p must be in (0, 1], not {p}")
    _require_few(p * n * (n - 1) / 2)
    # the simple one draws for each pair of nodes; the other takes as long as there are edges
    draw = nx.gnp_random_graph if n <= LARGE else nx.fast_gnp_random_graph
    return _connected(lambda seed: draw(n, p, seed=seed), seed, f"p={p}")


def watts_strogatz(n: int, *, k: int | None = None, p: float = 0.3, seed: int = 0) -> "Graph":
    """Build a small world: a ring of k nearest neighbours with some edges rewired.

    Options:
        k even and in [2, n), default 4: neighbours of a node before any edge is rewired
        p in [0, 1]: probability that an edge is rewired
        seed >= 0: random seed; the draw is repeated until the graph is connected
    """
    import networkx as nx

    k = min(4, n - 1) // 2 * 2 if k is None else k
    if not (0 <= p <= 1 and ((1 < k < n and k % 2 == 0) or n <= 3)):
        raise ValueError(f"k must be even and in [2, n), and p in [0, 1], not {k} and {p}")
    if n <= 3:
        return complete(n)
    return _connected(lambda seed: nx.watts_strogatz_graph(n, k, p, seed=seed), seed, f"k={k}")


def barabasi_albert(n: int, *, m: int | None = None, seed: int = 0) -> "Graph":
    """Build a graph by preferential attachment: each new node adds m edges.

    Options:
        m in [1, n), default 2: edges of a new node
        seed >= 0: random seed; the draw is repeated until the graph is connected
    """
    import networkx as nx

    m = min(2, n - 1) if m is None else m
    if n == 1:
        return nx.empty_graph(1)
    return _connected(lambda seed: nx.barabasi_albert_graph(n, m, seed=seed), seed, f"m={m}")


def random_regular(n: int, *, d: int | None = None, seed: int = 0) -> "Graph":
    """Build a random graph in which every node has d neighbours.

    Options:
        d in [0, n), default 3 or, if n is odd, 4: neighbours of a node; n d must be even
        seed >= 0: random seed; the draw is repeated until the graph is connected
    """
    import networkx as nx

    d = min(3 + n % 2, n - 1) if d is None else d
    if not 0 <= d < n:
        raise ValueError(f"d must be in [0, {n}), not {d}")
    if n <= 2 and d == n - 1:
        return complete(n)
    return _connected(lambda seed: nx.random_regular_graph(d, n, seed=seed), seed, f"d={d}")


def barbell(n: int) -> "Graph":
    """Build two complete graphs joined by an edge (if n is odd, by a node between them)."""
    import networkx as nx

    _require_few(n * n / 4)
    return nx.barbell_graph(n // 2, n % 2) if n > 3 else nx.path_graph(n)


def tree(n: int, *, children: int = 2) -> Built:
    """Build a balanced tree, filled level by level.

    Options:
        children >= 1: children of a node
    """
    if children < 1:
        raise ValueError(f"children must be at least 1, not {children}")
    nodes = np.arange(1, n)
    return _built(n, (nodes - 1) // min(children, n), nodes)


def _built(n: int, some: Array, others: Array) -> Built:
    """Return the graph with edges between some nodes and others: of networkx, or if large arrays.

    An edge of a node to itself, as in a ring of one node, is none.
    """
    shape = shape_of_arcs(n, some, others, directed=False)
    return graph_of_shape(shape) if n <= LARGE else shape


def _require_few(edges: float) -> None:
    if edges > MOST_EDGES:
        raise ValueError(
            f"about {edges:.0e} edges are too many to be built, at most {MOST_EDGES:.0e}"
        )


def from_networkx(name: str, options: dict[str, str], n: int) -> "Graph":
    """Build the graph `nx.NAME:key=value` with any generator of networkx that gives n nodes.

    If the generator takes `n` or `seed` and they are not among the options, they are n and 0.
    """
    import networkx as nx

    generator = getattr(nx, name, None)
    hidden = name.startswith(("_", "read_", "write_"))  # a pipe would block, a device never end
    if not callable(generator) or hidden or isinstance(generator, type):
        generators = [known for known in dir(nx) if known.endswith("_graph")]
        raise UserError(f"networkx has no generator '{name}'{_hint(name, generators)}")
    given = {key: _literal(value) for key, value in options.items()}
    takes = inspect.signature(generator).parameters
    for key in given:
        if key not in takes:
            raise UserError(f"nx.{name} has no option '{key}'{nearest(key, takes)}")
    if "n" in takes:
        given.setdefault("n", n)
    seed = given.pop("seed", 0)
    for key, value in given.items():
        if isinstance(value, int) and abs(value) > max(n * n, 1000):
            raise UserError(f"nx.{name}: {key}={value} is too much for a graph of {n} nodes")

    def draw(seed: Any) -> "Graph":
        with _bounded_graphs(n):
            made = generator(**given, **({"seed": seed} if "seed" in takes else {}))
        if not isinstance(made, nx.Graph):
            raise ValueError(f"gives {type(made).__name__}, not a graph")
        if len(made) != n:
            raise ValueError(f"gives {len(made)} nodes, but there are {n} ranks")
        return as_integers(made)

    try:
        return _connected(draw, seed, f"nx.{name}") if "seed" in takes else draw(None)
    except Exception as error:  # a generator may raise anything for options that do not suit it
        raise UserError(f"nx.{name}: {error}") from None


@contextmanager
def _bounded_graphs(n: int) -> Iterator[None]:
    """Raise ValueError in the `with` block where networkx makes far more than n nodes.

    A generator has no limit of its own: a hypercube of dimension 30 would fill the memory.
    """
    import networkx as nx

    most = max(20 * n, 1000)

    class Nodes(dict[Any, Any]):
        def __setitem__(self, node: Any, value: Any) -> None:
            if len(self) >= most:
                raise ValueError(f"gives more than {most} nodes, but there are {n} ranks")
            super().__setitem__(node, value)

    usual, nx.Graph.node_dict_factory = nx.Graph.node_dict_factory, Nodes
    try:
        with limited_memory(max(LEAST_MEMORY, MEMORY_PER_NODE * n)):
            yield
    except MemoryError:
        raise ValueError(f"needs too much memory for a graph of {n} nodes") from None
    finally:
        nx.Graph.node_dict_factory = usual


def as_integers(graph: "Graph") -> "Graph":
    """Return the graph without loops and multiple edges, with nodes 0 to n-1; arcs stay arcs.

    Nodes that are such numbers keep them; others are numbered in their order.
    """
    import networkx as nx

    simple = nx.DiGraph() if graph.is_directed() else nx.Graph()
    numbers = {node: _as_integer(node) for node in graph}
    if sorted(numbers.values()) != list(range(len(graph))):
        numbers = {node: number for number, node in enumerate(graph)}
    simple.add_nodes_from(range(len(graph)))
    simple.add_edges_from((numbers[i], numbers[j]) for i, j in graph.edges() if i != j)
    return simple


def _as_integer(node: Any) -> int:
    """Return the node as a number, -1 if it is none."""
    try:
        return int(node)
    except (TypeError, ValueError):
        return -1


def _connected(draw: Callable[[int], "Graph"], seed: int, what: str) -> "Graph":
    """Draw graphs, each with the next sub-seed, until one is (strongly) connected; return it."""
    import networkx as nx

    if seed < 0:
        raise ValueError(f"seed must be >= 0, not {seed}")
    for attempt in range(REDRAWS):
        sub_seed = np.random.SeedSequence([seed, attempt]).generate_state(1)[0] if attempt else seed
        try:
            graph = draw(int(sub_seed))
        except nx.NetworkXException as error:
            raise ValueError(str(error)) from None
        joined = nx.is_strongly_connected if graph.is_directed() else nx.is_connected
        if joined(graph):
            return graph
    raise ValueError(f"none of {REDRAWS} graphs with {what} is connected")


def _literal(text: str) -> Any:
    """Return the value of a Python literal, else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text


def _hint(name: str, known: list[str]) -> str:
    """Return the hint of `nearest` without its list of known names, which would be 200 here."""
    return nearest(name, known).partition(" (known")[0]


UNDIRECTED: dict[str, Callable[..., Built]] = {
    "ring": ring,
    "path": path,
    "star": star,
    "complete": complete,
    "grid": grid,
    "torus": torus,
    "hypercube": hypercube,
    "exponential": exponential,
    "er": er,
    "watts-strogatz": watts_strogatz,
    "barabasi-albert": barabasi_albert,
    "random-regular": random_regular,
    "barbell": barbell,
    "tree": tree,
}
