"""Graphs from files: edge lists and GraphML; a graph of networkx as an edge list."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..files import read_text, require_regular
from ..spec import integer
from .families import as_integers

if TYPE_CHECKING:
    from networkx import Graph


def read_graph(path: Path, n: int) -> "Graph":
    """Read a graph of n nodes from a .graphml file, or from an edge list in any other file."""
    graph = read_graphml(path) if path.suffix.lower() == ".graphml" else read_edge_list(path)
    if len(graph) != n:
        raise UserError(f"{path} is a graph of {len(graph)} nodes, but there are {n} ranks")
    return graph


def read_edge_list(path: Path) -> "Graph":
    """Read a graph from lines `i j`, or a directed one from lines `i -> j`; `#` begins a comment.

    Nodes are numbered from 0.
    """
    import networkx as nx

    edges = []
    arrows: set[bool] = set()
    lines = read_text(path).splitlines()
    for number, line in enumerate(lines, start=1):
        before, arrow, after = line.partition("#")[0].partition("->")
        words = [before, after] if arrow else before.split()
        if not arrow and not words:
            continue
        try:
            i, j = (integer("node", word.strip()) for word in words)
        except (ValueError, UserError):
            raise UserError(
                f"{path}, line {number}: expected two node numbers, found '{line.strip()}'"
            ) from None
        if min(i, j) < 0 or i == j:
            raise UserError(f"{path}, line {number}: ({i}, {j}) cannot be an edge")
        arrows.add(bool(arrow))
        if len(arrows) == 2:
            raise UserError(
                f"{path}, line {number}: the file has lines `i j` and lines `i -> j`; in a "
                "directed graph, an edge is two lines, i -> j and j -> i"
            )
        edges.append((i, j))
    if not edges:
        raise UserError(f"{path} lists no edges")
    count = max(map(max, edges)) + 1
    if count > 10 * len(edges) + 10:  # a mistyped node number must not fill the memory
        raise UserError(f"{path} has a node {count - 1}, but only {len(edges)} edges")
    graph = nx.empty_graph(count, nx.DiGraph if True in arrows else nx.Graph)
    graph.add_edges_from(edges)
    return graph


def read_graphml(path: Path) -> "Graph":
    """Read a graph, undirected or directed, from a GraphML file."""
    import networkx as nx

    require_regular(path)
    try:
        graph = nx.read_graphml(path)
    # networkx takes a damaged file apart with whatever error that brings
    except Exception as error:
        raise UserError(f"cannot read {path} as GraphML: {error}") from None
    return as_integers(graph)


def is_graph(value: Any) -> bool:
    """Return whether a value is a graph of networkx."""
    import networkx as nx

    return isinstance(value, nx.Graph)


def edge_list(graph: "Graph") -> str:
    """Return a graph of networkx as the text of an edge list, with nodes numbered from 0.

    Raises UserError for a graph that an edge list cannot hold, or a run not use.
    """
    loops = [node for node in graph if graph.has_edge(node, node)]
    alone = [node for node in graph if not graph.degree(node)]
    if loops:
        raise UserError(f"the graph has an edge from node {loops[0]!r} to itself")
    if alone:
        raise UserError(f"the graph is not connected: node {alone[0]!r} has no edge")
    simple = as_integers(graph)
    if graph.is_directed():
        return "".join(f"{i} -> {j}\n" for i, j in sorted(simple.edges()))
    edges = sorted({(min(pair), max(pair)) for pair in simple.edges()})
    return "".join(f"{i} {j}\n" for i, j in edges)
