"""All nodes of a graph in one process, and steps of an algorithm that may write to nothing."""

import numpy as np

from mpi_gt.comm.compression import Encoder
from mpi_gt.comm.stacked import StackedNode, StackedProblem
from mpi_gt.graphs import build_network
from mpi_gt.problems import Huber, Place


class ReadOnly:
    """A mix whose inputs and results nobody may write to."""

    def __init__(self, node):
        self.node = node

    def __call__(self, *vectors):
        results = self.node.mix(*map(frozen, vectors))
        for result in results:
            frozen(result._value)
        return results

    def compressed(self, *vectors):
        pairs = self.node.mix.compressed(*map(frozen, vectors))
        for own, result in pairs:
            frozen(own), frozen(result._value)
        return pairs


class Grad:
    """The gradients of one step, with the draw of t; nobody may write to them."""

    def __init__(self, problem, t):
        self.problem = problem
        self.t = t

    def __call__(self, x):
        return frozen(self.problem.gradient(self.t, x))

    def full(self, x):
        return frozen(self.problem.evaluate(x)[1].astype(x.dtype))


def frozen(array):
    array.flags.writeable = False
    return array


def stacked(n, graph="er:p=0.7", seeds=(0, 1), **options):
    """Return a node that stands for all n, the Huber problem on them, and their first x."""
    network = build_network(graph, None, n)
    problem = StackedProblem([Huber(Place(i, n, seeds), **options) for i in range(n)])
    return StackedNode(network.arcs), problem, np.zeros((n, len(seeds), problem.dim))


def steps(algorithm, node, problem, x, count):
    """Return the states at t = 1, ..., count + 1."""
    node.mix_by(algorithm.kinds)
    if algorithm.compressor is not None:
        seeds = tuple(range(x.shape[1]))
        places = [Place(i, len(x), seeds, x.dtype) for i in range(len(x))]
        node.compress_with([Encoder(algorithm.compressor, place) for place in places])
    state = algorithm.init(frozen(x), Grad(problem, 1))
    yield state
    for t in range(1, count + 1):
        node.iteration = t
        for array in state:
            frozen(array)
        state = algorithm.step(t, state, ReadOnly(node), Grad(problem, t + 1))
        yield state


def gap_of(problem, x):
    """Return the gap at each node's x, (nodes, seeds, dim), averaged over seeds."""
    xbar = x.mean(axis=0)
    gradient = problem.evaluate(xbar)[1].mean(axis=0)
    consensus = ((x - xbar) ** 2).sum(axis=-1).mean(axis=0)
    return ((gradient**2).sum(axis=-1) + consensus).mean()
