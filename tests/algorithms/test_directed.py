"""Methods on directed and changing graphs, all nodes in one process."""

import numpy as np
import pytest
from algorithms.stacking import gap_of, steps
from networks import ORACLE, digraph, layer, one_peer

from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.comm.stacked import StackedNode, StackedProblem
from mpi_gt.graphs.network import Arcs
from mpi_gt.problems import Huber, Place

DIRECTED = [
    ("push-pull", {}),
    ("push-pull", {"order": "cta"}),
    ("push-diging", {}),
    ("push-diging", {"order": "cta"}),
    ("sgp", {}),
    ("gt-adaptive-pp", {"vmin": 1e-4}),
]
QUADRATIC = {"spread": 0.5, "noise": 0.0, "threshold": 1000.0}


def oracle():
    return Arcs((layer(ORACLE, 8),))


def last_state(name, arcs, count, seeds=(0, 1), problem=QUADRATIC, **options):
    """Return the last state and its gap."""
    n = arcs.layers[0].nodes
    stacked = StackedProblem([Huber(Place(i, n, seeds), **problem) for i in range(n)])
    x = np.zeros((n, len(seeds), stacked.dim))
    *_, state = steps(ALGORITHMS[name](**options), StackedNode(arcs), stacked, x, count)
    return state, gap_of(stacked, state.x)


@pytest.mark.parametrize(("name", "options"), DIRECTED[:4], ids=str)
def test_tracking_methods_are_exact_on_a_digraph(name, options):
    state, gap = last_state(name, oracle(), 1000, lr=0.1, **options)
    assert gap < 1e-19
    np.testing.assert_allclose(state.s.mean(axis=0), state.g.mean(axis=0), atol=1e-13)


def test_the_adaptive_method_is_exact_on_a_digraph():
    _, gap = last_state("gt-adaptive-pp", oracle(), 2000, lr=0.01, vmin=1e-4)
    assert gap < 1e-23


def test_gradient_push_has_the_floor_of_dsgd():
    _, gap = last_state("sgp", oracle(), 1000, lr=0.1)
    assert 1e-3 < gap < 1e-1
    _, smaller = last_state("sgp", oracle(), 1000, lr=0.01)
    assert smaller < gap / 20


class Nothing:
    """A problem without a slope: only the mixing is left of a method."""

    dim = 3

    def gradient(self, t, x):
        return np.zeros_like(x)


@pytest.mark.parametrize("make", [oracle, lambda: digraph(5), lambda: one_peer(6)])
@pytest.mark.parametrize("name", ["sgp", "push-diging"])
def test_push_sum_finds_the_mean(name, make):
    arcs = make()
    x = np.random.default_rng(0).standard_normal((arcs.layers[0].nodes, 2, 3))
    *_, state = steps(ALGORITHMS[name](), StackedNode(arcs), Nothing(), x, 200)
    np.testing.assert_allclose(state.x, np.broadcast_to(x.mean(axis=0), x.shape), atol=1e-14)
    np.testing.assert_allclose(state.w.mean(axis=0), 1, atol=1e-14)


@pytest.mark.parametrize(("name", "options"), DIRECTED, ids=str)
def test_the_mean_of_the_gradients_is_kept_on_every_network(name, options):
    for arcs in (oracle(), digraph(5), one_peer(6), one_peer(8, seed=1)):
        state, _ = last_state(name, arcs, 60, problem={"noise": 0.3, "spread": 0.5}, **options)
        if ALGORITHMS[name].tracks:
            error = np.abs(state.s.mean(axis=0) - state.g.mean(axis=0)).max()
            assert error <= 1e-8 * (1 + np.abs(state.g.mean(axis=0)).max())


@pytest.mark.parametrize("name", ["gt", "gt-adaptive", "push-pull", "push-diging"])
def test_tracking_methods_are_exact_where_one_peer_is_heard_at_a_time(name):
    options = {"lr": 0.05, "vmin": 1e-2} if name == "gt-adaptive" else {"lr": 0.1}
    for seed in (None, 5):
        state, gap = last_state(name, one_peer(8, seed), 1500, **options)
        assert gap < 1e-18
        np.testing.assert_allclose(state.s.mean(axis=0), state.g.mean(axis=0), atol=1e-13)


def test_by_hand_on_a_digraph():
    """Two steps of push-pull and of Algorithm 1 by products with the matrices."""
    arcs = digraph(5)
    pull, push = (arcs.layers[0].matrix(kind) for kind in ("pull", "push"))
    assert not np.allclose(pull, push)
    np.testing.assert_allclose(pull.sum(axis=1), 1)
    np.testing.assert_allclose(push.sum(axis=0), 1)
    stacked = StackedProblem([Huber(Place(i, 5, (0,)), **QUADRATIC) for i in range(5)])
    x = np.random.default_rng(0).standard_normal((5, 1, stacked.dim))

    def times(matrix, z):
        return np.einsum("ij,jsk->isk", matrix, z)

    for name in ("push-pull", "gt-adaptive-pp"):
        algorithm = ALGORITHMS[name](lr=0.1)
        states = list(steps(algorithm, StackedNode(arcs), stacked, x, 2))
        y = x
        s = g = stacked.gradient(1, x)
        m, v = np.zeros_like(x), s * s
        for t in (1, 2):
            m, v = 0.9 * m + 0.1 * s, np.clip(0.999 * v + 0.001 * s * s, 1e-8, 100)
            y = (
                times(pull, y - 0.1 * s)
                if name == "push-pull"
                else times(pull, y) - 0.1 * m / v**0.5
            )
            new = stacked.gradient(t + 1, y)
            s, g = times(push, s) + new - g, new
            np.testing.assert_allclose(states[t].x, y, atol=1e-13)
            np.testing.assert_allclose(states[t].s, s, atol=1e-13)
