"""Partition of a graph into parts of given sizes, with little weight on the edges between them.

The parts are halved again and again. A large graph is made smaller for that, by merging neighbours
in pairs; the halves of the smallest graph are grown from several nodes, and improved on the way
back by moving one node after the other (Fiduccia and Mattheyses, 1982; Karypis and Kumar, 1998).
Then pairs of parts are improved in the same way. All numbers are whole: every machine finds the
same partition.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .web import Web

Array = NDArray[Any]

COARSEST = 60  # nodes of the smallest graph
GROWN = 8  # nodes that halves are grown from; fewer in a large graph
PASSES = 8  # of moving every node once, at most
LOW = -(2**60)  # the gain of a node that must not move
WORK = 200_000  # nodes, and sixteenths of edges, of the pairs of parts to improve: some seconds


def partition(web: Web, capacities: Sequence[int]) -> Array:
    """Return the part of each node; part p gets capacities[p] nodes, and part 0 has node 0."""
    parts = np.zeros(web.nodes, np.int64)
    tries = max(2, min(GROWN, 8000 // web.nodes))
    _divide(web, np.arange(web.nodes), 0, list(capacities), parts, tries)
    return parts


def _divide(
    web: Web, nodes: Array, first: int, capacities: list[int], parts: Array, tries: int
) -> None:
    """Distribute these nodes, with the web among them, over the parts from `first` on."""
    if len(capacities) == 1:
        parts[nodes] = first
        return
    half = len(capacities) // 2
    side = bisect(web, sum(capacities[:half]), 0 if nodes[0] == 0 else None, tries)
    for number, own in ((0, capacities[:half]), (1, capacities[half:])):
        chosen = np.flatnonzero(side == number)
        inner = web.part(chosen) if len(own) > 1 else web
        _divide(inner, nodes[chosen], first + number * half, own, parts, tries)


def bisect(web: Web, target: int, fixed: int | None, tries: int = GROWN) -> Array:
    """Return the side of each node, 0 or 1; side 0 has the size `target` and the node `fixed`.

    A web of merged nodes is halved as well as their sizes allow. `tries` is the number of nodes to
    grow halves of the smallest web from.
    """
    coarser, label = _coarsen(web) if web.nodes > COARSEST else (web, np.arange(web.nodes))
    if coarser.nodes > 0.9 * web.nodes:
        return _grown_halves(web, target, fixed, tries)
    merged = None if fixed is None else int(label[fixed])
    side = bisect(coarser, target, merged, tries)[label]
    improve(web, side, target, fixed)
    return side


def _coarsen(web: Web) -> tuple[Web, Array]:
    """Return the web with pairs of neighbours merged, and where each node is in it.

    Nodes of few neighbours choose first, the neighbour with the heaviest edge.
    """
    largest = max(2, int(web.sizes.sum()) // 20)
    label = np.full(web.nodes, -1)
    count = 0
    for node in np.argsort(np.diff(web.starts), kind="stable").tolist():
        if label[node] >= 0:
            continue
        ends, weights = web.around(node)
        free = (label[ends] < 0) & (web.sizes[ends] + web.sizes[node] <= largest)
        label[node] = count
        if free.any():
            label[ends[np.argmax(np.where(free, weights, -1))]] = count
        count += 1
    return web.merged(label), label


def _grown_halves(web: Web, target: int, fixed: int | None, tries: int) -> Array:
    """Return the best of several halves, each grown from one node and improved."""
    total = int(web.sizes.sum())
    count = min(tries, web.nodes)
    seeds = [node * web.nodes // count for node in range(count)]
    best: tuple[tuple[int, int], Array] | None = None
    for seed in seeds if fixed is None else [fixed, *(s for s in seeds if s != fixed)]:
        grows = 0 if fixed is None or seed == fixed else 1
        grown = _grow(web, target if grows == 0 else total - target, seed, fixed)
        side = np.where(grown, grows, 1 - grows)
        improve(web, side, target, fixed)
        found = abs(int(web.sizes[side == 0].sum()) - target), web.cut(side)
        if best is None or found < best[0]:
            best = found, side
    assert best is not None
    return best[1]


def _grow(web: Web, amount: int, seed: int, fixed: int | None) -> Array:
    """Return which nodes are reached from `seed`, up to that size, by those that add least cut."""
    grown = np.zeros(web.nodes, bool)
    gains = -np.bincount(web.rows, web.weights, web.nodes).astype(np.int64)
    if fixed is not None:
        gains[fixed] = LOW
    node, size = seed, 0
    while size < amount:
        grown[node] = True
        size += int(web.sizes[node])
        gains[node] = LOW
        ends, weights = web.around(node)
        gains[ends] += 2 * weights
        node = int(np.argmax(gains))
        if gains[node] <= LOW // 2:
            break
    return grown


def improve(web: Web, side: Array, target: int, fixed: int | None) -> int:
    """Move nodes between two sides, in place, while that lowers the cut; return by how much.

    Side 0 ends with the size `target`, or as near to it as its nodes' sizes allow.
    """
    slack = 0 if int(web.sizes.max(initial=1)) == 1 else int(web.sizes.max())
    total = 0
    for _ in range(PASSES):
        excess, gain = _move_once(web, side, target, slack, fixed)
        total += gain
        if excess >= 0 and gain <= 0:
            break
    return total


def _move_once(
    web: Web, side: Array, target: int, slack: int, fixed: int | None
) -> tuple[int, int]:
    """Move every node at most once, keep the best of the ways passed; return what was gained.

    The first number is the change in how far the sizes are off (beyond `slack`), the second one
    how much lower the cut is.
    """
    differs = side[web.rows] != side[web.ends]
    gains = np.bincount(web.rows, np.where(differs, web.weights, -web.weights), web.nodes)
    score = np.full((2, web.nodes), LOW)  # by side: the gain of moving a node away from it
    score[side, np.arange(web.nodes)] = gains.astype(np.int64)
    if fixed is not None:
        score[:, fixed] = LOW
    size = int(web.sizes[side == 0].sum())
    begin = max(0, abs(size - target) - slack)
    best, kept, cut = (begin, 0), 0, 0
    moved: list[int] = []
    patience = 50 + web.nodes // 50
    while len(moved) - kept <= patience:
        first, second = score.argmax(axis=1).tolist()
        given = score[0, first] >= score[1, second] if size == target else size > target
        node, source = (first, 0) if given else (second, 1)
        gain = int(score[source, node])
        if gain <= LOW // 2:
            break
        size += int(web.sizes[node]) * (1 if source else -1)
        cut -= gain
        score[source, node] = LOW
        side[node] = 1 - source
        moved.append(node)
        ends, weights = web.around(node)
        where = side[ends]
        score[where, ends] += np.where(where == source, 2, -2) * weights
        reached = max(0, abs(size - target) - slack), cut
        if reached < best:
            best, kept = reached, len(moved)
    undone = moved[kept:]
    side[undone] = 1 - side[undone]
    return best[0] - begin, -best[1]


def improve_pairs(web: Web, parts: Array, capacities: Sequence[int]) -> None:
    """Move nodes between pairs of parts, in place, those with the heaviest cut first."""
    changes = [0] * len(capacities)  # of each part
    seen: dict[tuple[int, int], tuple[int, int]] = {}
    work, improved = 0, True
    while improved and work < WORK:
        improved = False
        for a, b in _adjacent(web, parts, len(capacities)):
            if seen.get((a, b)) == (changes[a], changes[b]) or work >= WORK:
                continue
            nodes = np.flatnonzero((parts == a) | (parts == b))
            side = (parts[nodes] == b).astype(np.int64)
            fixed = 0 if nodes[0] == 0 else None
            inner = web.part(nodes)
            work += len(nodes) + len(inner.ends) // 16
            if improve(inner, side, capacities[a], fixed) > 0:
                parts[nodes] = np.where(side == 0, a, b)
                changes[a] += 1
                changes[b] += 1
                improved = True
            seen[a, b] = changes[a], changes[b]


def _adjacent(web: Web, parts: Array, count: int) -> list[tuple[int, int]]:
    """Return the pairs of parts with edges between them, by descending weight."""
    low, high = parts[web.rows], parts[web.ends]
    between = low < high
    codes, inverse = np.unique(low[between] * count + high[between], return_inverse=True)
    order = np.argsort(-np.bincount(inverse, web.weights[between], len(codes)), kind="stable")
    return [divmod(code, count) for code in codes[order].tolist()]
