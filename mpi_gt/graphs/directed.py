"""Families of directed graphs: functions that build the shape of n nodes with arcs between them."""

from collections.abc import Callable

import numpy as np

from ..memory import require_memory
from .shapes import Shape, shape_of_arcs

PER_ARC = 100  # bytes of an arc while it is drawn, at least


def directed_ring(n: int) -> Shape:
    """Build a ring of arcs: node i sends to i + 1 and hears i - 1."""
    tails = np.arange(n)
    return shape_of_arcs(n, tails, (tails + 1) % n)


def directed_exponential(n: int) -> Shape:
    """Build arcs from each node i to i + 1, i + 2, i + 4, i + 8, ... around a ring."""
    steps = 1 << np.arange((n - 1).bit_length())
    tails = np.repeat(np.arange(n), len(steps))
    return shape_of_arcs(n, tails, (tails + np.tile(steps, n)) % n)


def digraph(n: int, *, arcs: int | None = None, seed: int = 0) -> Shape:
    """Build a ring of arcs 0 -> 1 -> ... -> 0, and random arcs besides.

    Options:
        arcs in [0, n (n - 2)], default 6 or, if that is too many, all: random arcs
        seed in [0, 2^63]: random seed
    """
    ring = directed_ring(n)
    most = n * (n - 1) - len(ring.sources)
    arcs = min(6, most) if arcs is None else arcs
    if not 0 <= arcs <= most:
        raise ValueError(f"arcs must be in [0, {most}], not {arcs}")
    if not 0 <= seed <= 2**63:
        raise ValueError(f"seed must be in [0, 2^63], not {seed}")
    require_memory(f"a digraph of {n + arcs} arcs", PER_ARC * (n + arcs))
    generator = np.random.Generator(np.random.Philox(key=seed))
    if len(ring.sources) + arcs > n * (n - 1) // 2:  # most draws would be of arcs that are there
        return _dense_digraph(ring, arcs, generator)
    chosen = dict.fromkeys((ring.sources * n + ring.receivers).tolist())
    wanted = len(chosen) + arcs
    while len(chosen) < wanted:
        tails, heads = generator.integers(n, size=(2, wanted - len(chosen)))
        chosen.update(dict.fromkeys((tails * n + heads)[tails != heads].tolist()))
    codes = np.fromiter(chosen, np.int64)
    return shape_of_arcs(n, codes // n, codes % n)


def _dense_digraph(ring: Shape, arcs: int, generator: np.random.Generator) -> Shape:
    """Return the ring and `arcs` of all others, drawn without replacement."""
    n = ring.nodes
    free = np.ones(n * n, bool)
    free[:: n + 1] = False
    free[ring.sources * n + ring.receivers] = False
    others = generator.permutation(np.nonzero(free)[0])[:arcs]
    return shape_of_arcs(
        n,
        np.concatenate((ring.sources, others // n)),
        np.concatenate((ring.receivers, others % n)),
    )


DIRECTED: dict[str, Callable[..., Shape]] = {
    "directed-ring": directed_ring,
    "directed-exponential": directed_exponential,
    "digraph": digraph,
}
