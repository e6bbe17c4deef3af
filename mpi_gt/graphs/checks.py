"""Checks of the arcs of a network: who reaches whom, and who only sends or only hears."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from .reach import eccentricity
from .shapes import Shape

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[Any]

SEARCHES = 4096  # nodes up to which the diameter is searched from every node


def require_connected(shape: Shape, layers: int) -> None:
    """Raise UserError, naming two nodes, unless there is a path from every node to every other.

    `shape` is the graph, or all `layers` of a changing one together.
    """
    back = reversed_shape(shape)
    small = shape.nodes <= SEARCHES  # needs no scipy, whose import takes longer
    if small and _reaches_all(shape) and (not shape.directed or _reaches_all(back)):
        return
    from scipy.sparse.csgraph import connected_components

    kind = "strong" if shape.directed else "weak"
    count, label = connected_components(sparse(shape), connection=kind)
    if count == 1:
        return
    what = "the graph" if layers == 1 else f"the graph of all {layers} layers"
    if not shape.directed:
        second = int(np.argmax(label != label[0]))
        raise UserError(
            f"{what} is not connected: no path joins nodes 0 and {second} ({count} components)"
        )
    reached = np.isfinite(distances(shape, 0))
    start, end = 0, int(np.argmin(reached))
    if reached.all():
        start, end = int(np.argmin(np.isfinite(distances(back, 0)))), 0
    raise UserError(
        f"{what} is not strongly connected: no path leads from node {start} to node {end} "
        f"({count} components)"
    )


def _reaches_all(shape: Shape) -> bool:
    """Return whether paths lead from node 0 to every node."""
    return eccentricity(shape.nodes, shape.sources, shape.receivers) is not None


def require_both_ways(shapes: Sequence[Shape]) -> None:
    """Raise UserError, naming the node, where a layer has a node that only sends or only hears.

    Open MPI's blocking Neighbor_allgather waits for ever on such a rank.
    """
    for number, shape in enumerate(shapes):
        sends, hears = shape.out_degrees > 0, shape.in_degrees > 0
        if (sends == hears).all():
            continue
        node = int(np.argmax(sends != hears))
        does, lacks = ("sends", "hears nobody") if sends[node] else ("hears", "sends to nobody")
        raise UserError(
            f"in layer {number} of the graph node {node} {does} but {lacks}: in each layer a node "
            "needs arcs in both directions, or none"
        )


def sparse(shape: Shape) -> "csr_array":
    """Return the arcs as a sparse matrix with a one at (source, receiver)."""
    from scipy.sparse import csr_array

    ones = np.ones(len(shape.sources), np.float32)
    return csr_array((ones, (shape.sources, shape.receivers)), shape=(shape.nodes,) * 2)


def reversed_shape(shape: Shape) -> Shape:
    """Return the shape with all arcs turned round (in another order)."""
    return Shape(shape.nodes, shape.sources, shape.receivers, shape.directed)


def distances(shape: Shape, starts: Any) -> Array:
    """Return the number of arcs from a node, or from each of several, to every node."""
    from scipy.sparse.csgraph import dijkstra

    found: Array = dijkstra(sparse(shape), indices=starts, unweighted=True)
    return found


def diameter(shape: Shape) -> tuple[int, bool]:
    """Return the largest distance between two nodes, and True; of a huge graph a lower bound.

    The bound is that of two searches, the second from the node that the first found farthest; it
    is exact for trees, where True is returned as well.
    """
    nodes = np.arange(shape.nodes)
    if shape.nodes <= SEARCHES:
        blocks = np.array_split(nodes, max(1, shape.nodes // 256))
        return int(max(distances(shape, block).max() for block in blocks)), True
    farthest = int(np.argmax(distances(shape, 0)))
    tree = not shape.directed and shape.edges == shape.nodes - 1
    return int(distances(shape, farthest).max()), tree
