"""The reach of a graph: the number of arcs by which word of something has come to every node."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

WORK = 1 << 20  # unions of sets of nodes for an exact result: some tenths of a second on root


def reach_of(nodes: int, tails: Array, heads: Array) -> int:
    """Return a number of arcs that suffices from any node to any other, at least 1.

    Returns the diameter if that takes little work, else the way through node 0, which is at most
    twice as long. Where no path leads from one node to another it returns the number of nodes.
    """
    there, back = eccentricity(nodes, tails, heads), eccentricity(nodes, heads, tails)
    if there is None or back is None:
        return nodes
    # the diameter is at least the longer of the two, and a search takes that many rounds
    if len(tails) * (there + back) <= WORK:
        return max(1, _diameter(nodes, tails, heads))
    return max(1, there + back)


def eccentricity(nodes: int, tails: Array, heads: Array) -> int | None:
    """Return the distance from node 0 to the node farthest from it; None if one is out of reach."""
    order = np.argsort(tails, kind="stable")
    starts = np.searchsorted(tails[order], np.arange(nodes + 1))
    ordered = heads[order]
    seen = np.zeros(nodes, bool)
    seen[0] = True
    front, length = np.zeros(1, np.int64), 0
    while True:
        begins, counts = starts[front], starts[front + 1] - starts[front]
        skipped = np.cumsum(counts) - counts
        arcs = np.repeat(begins - skipped, counts) + np.arange(counts.sum())
        front = np.sort(ordered[arcs])  # not np.unique, which imports numpy.ma on every start
        front = front[(np.diff(front, prepend=-1) > 0) & ~seen[front]]
        if not len(front):
            return length if seen.all() else None
        seen[front] = True
        length += 1


def _diameter(nodes: int, tails: Array, heads: Array) -> int:
    """Return the diameter of a strongly connected graph; each node's set is an integer of bits."""
    everybody = (1 << nodes) - 1
    heard = [1 << node for node in range(nodes)]  # of whom each node has heard
    arcs = list(zip(tails.tolist(), heads.tolist(), strict=True))
    length = 0
    while any(known != everybody for known in heard):
        before = heard.copy()
        for tail, head in arcs:
            heard[head] |= before[tail]
        length += 1
    return length
