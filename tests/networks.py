"""Small directed and changing networks, made by hand, independent of the package's families."""

import numpy as np

from mpi_gt.graphs.network import Arcs, Layer, Turns


def layer(pairs, n):
    """Return the layer of the arcs (j, i), from j to i, with pull and push weights.

    It has A as well if both are the same matrix.
    """
    adjacency = np.zeros((n, n), bool)
    for j, i in pairs:
        adjacency[i, j] = True
    receivers, sources = np.nonzero(adjacency)
    into, out = adjacency.sum(axis=1), adjacency.sum(axis=0)
    weights = {"pull": 1 / (1 + into[receivers]), "push": 1 / (1 + out[sources])}
    own = {"pull": 1 / (1.0 + into), "push": 1 / (1.0 + out)}
    if np.array_equal(weights["pull"], weights["push"]) and np.array_equal(into, out):
        weights["A"], own["A"] = weights["pull"], own["pull"]
    starts = np.searchsorted(receivers, np.arange(n + 1))
    return Layer(starts, sources, weights, own)


def digraph(n):
    """Return a ring in one direction with shortcuts, so that degrees in and out differ."""
    pairs = {(i, (i + 1) % n) for i in range(n)} | {(2, 0), (0, n - 1), (2, n - 1), (1, n - 1)}
    inside = {(j, i) for j, i in pairs if j != i and j < n}
    return Arcs((layer(inside, n),))


ORACLE = [*((i, (i + 1) % 8) for i in range(8)), (2, 0), (4, 3), (2, 6), (4, 6), (1, 7), (4, 7)]
"""The digraph of eight nodes on which the methods' convergence is known."""


def one_peer(n, seed=None):
    """Return the layers in which node i hears i - 2^k, in turn or drawn."""
    steps = [2**k for k in range(max(1, (n - 1).bit_length()))]
    layers = [layer([(i, (i + s) % n) for i in range(n) if n > 1], n) for s in steps]
    return Arcs(tuple(layers), Turns(len(layers), seed))


def mixed(n):
    """Return layers of all sorts: a digraph, a matching that leaves nodes out, and a path back."""
    pairs = [(i, i + 1) for i in range(0, n - 1, 2)]
    matching = layer([*pairs, *((j, i) for i, j in pairs)], n)
    ring = layer([(i, (i - 1) % n) for i in range(n) if n > 1], n)
    return Arcs((*digraph(n).layers, matching, ring), Turns(3))


NETWORKS = {
    "digraph": digraph,
    "one-peer": one_peer,
    "drawn": lambda n: one_peer(n, seed=3),
    "mixed": mixed,
}


class Built:
    """A network of these arcs, as far as a run needs one."""

    def __init__(self, arcs):
        self.arcs = arcs
        self.row = arcs.row
        kind = "A" if "A" in arcs.layers[0].weights else "pull"
        self.matrix = np.stack([each.matrix(kind) for each in arcs.layers])

    def facts(self):
        degrees = dict.fromkeys(("degree_min", "degree_mean", "degree_max"), 1)
        return {"nodes": self.arcs.layers[0].nodes, "edges": 1, "rho_A": 0.5, **degrees}

    def digest(self):
        return "by hand"


def instead_of_er(monkeypatch, name):
    """Let runs build that network in place of any graph they are given."""

    def made(graph, weights, n, *_, **__):
        return Built(NETWORKS[name](n))

    monkeypatch.setattr("mpi_gt.graphs.building.build_network", made)
