"""Graphs that change from step to step: one-peer families, and the matchings of a graph."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..spec import parse
from .shapes import Shape, shape_of_arcs

Array = NDArray[Any]


def one_peer_exponential(n: int) -> list[Shape]:
    """Build layers of one arc per node: in layer k node i hears i - 2^k, modulo n.

    There are log2 n layers, rounded up. All weights are 1/2, so that mixing with all layers in
    turn gives the exact average where n is a power of two.
    """
    heads = np.arange(n)
    steps = [1 << k for k in range((n - 1).bit_length())] or [0]
    return [shape_of_arcs(n, (heads - step) % n, heads) for step in steps]


def one_peer_hypercube(n: int) -> list[Shape]:
    """Build layers of pairs: in layer k node i talks to the node whose number differs in bit k.

    The number of nodes is a power of two. All weights are 1/2, so that mixing with all layers
    in turn gives the exact average.
    """
    if n & (n - 1):
        raise ValueError(f"the number of nodes must be a power of two, not {n}")
    nodes = np.arange(n)
    bits = [1 << k for k in range(n.bit_length() - 1)] or [0]
    return [_pairs(n, nodes, nodes ^ bit) for bit in bits]


CHANGING: dict[str, Callable[..., list[Shape]]] = {
    "one-peer-exponential": one_peer_exponential,
    "one-peer-hypercube": one_peer_hypercube,
}


def all_matchings() -> int | None:
    """Use the matchings in turn."""
    return None


def random_matchings(*, seed: int = 0) -> int | None:
    """Draw one of the matchings for each step, the same on all ranks.

    Options:
        seed in [0, 2^63]: random seed of the draws
    """
    if not 0 <= seed <= 2**63:
        raise ValueError(f"seed must be in [0, 2^63], not {seed}")
    return seed


MATCHINGS: dict[str, Callable[..., int | None]] = {
    "all": all_matchings,
    "random": random_matchings,
}


def parse_matchings(text: str) -> int | None:
    """Return the seed of random matchings, None for matchings in turn; raise UserError for others.

    `text` is `all`, `random` or `random:seed=S`.
    """
    name, rule, options = parse("matchings", MATCHINGS, text)
    try:
        return rule(**options)
    except ValueError as error:
        raise UserError(f"matchings {name}: {error}") from None


def matchings(shape: Shape) -> list[Shape]:
    """Split the edges into matchings: layers in which each node has one neighbour or none.

    Edges are taken in ascending order, each into the first matching with neither of its ends.
    """
    once = shape.sources > shape.receivers  # ascending by the smaller end, then by the other
    pairs = zip(shape.receivers[once].tolist(), shape.sources[once].tolist(), strict=True)
    taken = [0] * shape.nodes  # bit c: the node has an edge of colour c
    colours: list[list[tuple[int, int]]] = []
    for i, j in pairs:
        free = ~(taken[i] | taken[j])
        bit = free & -free
        taken[i] |= bit
        taken[j] |= bit
        if bit.bit_length() > len(colours):
            colours.append([])
        colours[bit.bit_length() - 1].append((i, j))
    ends = [np.array(edges, np.int64).T for edges in colours] or [np.zeros((2, 0), np.int64)]
    return [_pairs(shape.nodes, low, high) for low, high in ends]


def _pairs(n: int, some: Array, others: Array) -> Shape:
    """Return a layer of edges, whose ends average."""
    return replace(shape_of_arcs(n, some, others, directed=False), fixed=True)
