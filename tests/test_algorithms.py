"""What every registered algorithm must do, without messages."""

from functools import partial

import numpy as np
import pytest

from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.graphs import build_network
from mpi_gt.problems import Huber, Place
from mpi_gt.stacked import StackedNode, StackedProblem


class ReadOnly:
    """A mix whose inputs and results nobody may write to."""

    def __init__(self, node):
        self.node = node

    def __call__(self, *vectors):
        results = self.node.mix(*map(frozen, vectors))
        for result in results:
            frozen(result._value)
        return results


def frozen(array):
    array.flags.writeable = False
    return array


def stacked(n, graph="er:p=0.7", seeds=(0, 1), **options):
    network = build_network(graph, None, n)
    degrees = np.array([network.graph.degree[i] for i in range(n)])
    problem = StackedProblem([Huber(Place(i, n, seeds), **options) for i in range(n)])
    return StackedNode(network.matrix, degrees), problem, np.zeros((n, len(seeds), problem.dim))


def steps(algorithm, node, problem, x, count):
    """The states at t = 1, ..., count + 1."""

    def gradient(t, x):
        return frozen(problem.gradient(t, x))

    state = algorithm.init(frozen(x), partial(gradient, 1))
    yield state
    for t in range(1, count + 1):
        for array in state:
            frozen(array)
        state = algorithm.step(t, state, ReadOnly(node), partial(gradient, t + 1))
        yield state


@pytest.mark.parametrize("name", ALGORITHMS)
def test_decreases_the_loss_and_writes_to_nothing_it_was_given(name):
    node, problem, x = stacked(8)
    *_, last = steps(ALGORITHMS[name](), node, problem, x, 300)
    before = problem.evaluate(x[0])[0].mean()
    after = problem.evaluate(last.x.mean(axis=0))[0].mean()
    assert after < 0.5 * before


@pytest.mark.parametrize("name", ALGORITHMS)
def test_tracker_keeps_the_mean_gradient(name):
    node, problem, x = stacked(8, spread=0.5)
    if ALGORITHMS[name].tracks:
        for state in steps(ALGORITHMS[name](), node, problem, x, 50):
            np.testing.assert_allclose(state.s.mean(axis=0), state.g.mean(axis=0), atol=1e-13)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_state_keeps_shape_and_dtype(name, dtype):
    node, _, x = stacked(4)
    place = [Place(i, 4, (0, 1), np.dtype(dtype)) for i in range(4)]
    problem = StackedProblem([Huber(p) for p in place])
    for state in steps(ALGORITHMS[name](), node, problem, x.astype(dtype), 3):
        for array in state:
            assert array.shape == x.shape
            assert array.dtype == dtype


def test_gt_adaptive_against_the_paper_s_equations_entry_by_entry():
    """Plain loops over nodes and entries, straight from the paper, on a noise-free problem."""
    n, iterations = 4, 30
    node, problem, x1 = stacked(n, "path", seeds=(0,), dim=3, noise=0.0, spread=0.5)
    matrix = build_network("path", None, n).matrix
    lr, b1, b2, vmin, vmax = 0.05, 0.8, 0.9, 1e-3, 2.0
    algorithm = ALGORITHMS["gt-adaptive"](lr=lr, beta1=b1, beta2=b2, vmin=vmin, vmax=vmax)

    def gradient(x):
        stacked_x = np.array(x)[:, np.newaxis]
        return problem.gradient(1, stacked_x)[:, 0].tolist()

    x = x1[:, 0].tolist()
    g = gradient(x)
    s = [row[:] for row in g]
    m = [[0.0] * 3 for _ in range(n)]
    v = [[entry**2 for entry in row] for row in s]
    for state in steps(algorithm, node, problem, x1, iterations):
        for ours, theirs in zip((state.x, state.s, state.m, state.v), (x, s, m, v), strict=True):
            np.testing.assert_allclose(ours[:, 0], theirs, atol=1e-13)
        ax = [[sum(matrix[i, j] * x[j][k] for j in range(n)) for k in range(3)] for i in range(n)]
        sums = [[sum(matrix[i, j] * s[j][k] for j in range(n)) for k in range(3)] for i in range(n)]
        for i in range(n):
            for k in range(3):
                m[i][k] = b1 * m[i][k] + (1 - b1) * s[i][k]
                v[i][k] = max(min(b2 * v[i][k] + (1 - b2) * s[i][k] ** 2, vmax), vmin)
                x[i][k] = ax[i][k] - lr * m[i][k] / v[i][k] ** 0.5
        g_new = gradient(x)
        s = [[sums[i][k] + g_new[i][k] - g[i][k] for k in range(3)] for i in range(n)]
        g = g_new


def test_clip_does_not_apply_to_the_first_v():
    node, problem, x = stacked(3)
    first = next(steps(ALGORITHMS["gt-adaptive"](vmin=0.9, vmax=1.0), node, problem, x, 0))
    np.testing.assert_array_equal(first.v, first.s**2)
    assert first.v.min() < 0.9


def test_schedule():
    algorithm = ALGORITHMS["gt-adaptive"](lr=0.5, schedule="sqrt")
    assert algorithm.rate(400) == pytest.approx(100 * 0.5 / 120)
    assert ALGORITHMS["gt-adaptive"](lr=0.5).rate(400) == 0.5


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.0},
        {"lr": -1.0},
        {"lr": float("nan")},
        {"lr": float("inf")},
        {"beta1": 1.0},
        {"beta1": -0.1},
        {"beta1": float("nan")},
        {"beta2": 0.0},
        {"beta2": 1.0},
        {"vmin": 0.0},
        {"vmin": 1.5},
        {"vmax": 0.5},
        {"vmax": float("inf")},
        {"vmax": float("nan")},
        {"schedule": "cosine"},
    ],
    ids=str,
)
def test_domains_of_gt_adaptive(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        ALGORITHMS["gt-adaptive"](**options)
