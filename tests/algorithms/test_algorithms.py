"""The contract of every registered algorithm, without messages."""

import numpy as np
import pytest
from algorithms.stacking import Grad, gap_of, stacked, steps

from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.algorithms.base import exchange_interval
from mpi_gt.comm.stacked import StackedProblem
from mpi_gt.graphs import build_network
from mpi_gt.problems import Huber, Place


@pytest.mark.parametrize("name", ALGORITHMS)
def test_decreases_the_loss_and_writes_to_nothing_it_was_given(name):
    node, problem, x = stacked(8)
    *_, last = steps(ALGORITHMS[name](), node, problem, x, 500)
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
        for field, array in state._asdict().items():
            width = 1 if field == "w" and name in PUSH_SUM else x.shape[-1]
            assert array.shape == (*x.shape[:-1], width)
            assert array.dtype == dtype


def test_gt_adaptive_against_the_paper_s_equations_entry_by_entry():
    """Algorithm 1 by plain loops over nodes and entries, on a noise-free problem."""
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


@pytest.mark.parametrize("name", ALGORITHMS)
def test_state_round_trips_through_a_file(name, tmp_path):
    """A State consists of arrays only, so that a checkpoint can hold it."""
    algorithm = ALGORITHMS[name]()
    node, problem, x = stacked(4)
    *_, state = steps(algorithm, node, problem, x, 5)
    np.savez(tmp_path / "state.npz", **state._asdict())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as file:
        restored = algorithm.State(**file)
    gradient = Grad(problem, 7)
    for ours, theirs in zip(
        algorithm.step(6, state, node.mix, gradient),
        algorithm.step(6, restored, node.mix, gradient),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


PUSH_SUM = ("sgp", "push-diging")  # they have one more number per node
ON_ONE_NODE = {
    "sgp": "dsgd",
    "push-diging": "gt",
    "push-pull": "gt",
    "gt-adaptive-pp": "gt-adaptive",
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_sends_what_it_needs_and_no_more(name):
    algorithm = ALGORITHMS[name]()
    node, problem, x = stacked(4, "ring")
    list(steps(algorithm, node, problem, x, 15))
    vectors = 2 if algorithm.tracks or name == "k-gt" else 1
    exchanges = 15 // exchange_interval(algorithm)
    size = x[0].nbytes
    by_push_sum = x[0, :, :1].nbytes if name in PUSH_SUM else 0
    if algorithm.compressor is not None:
        size = algorithm.compressor.size(*x[0].shape, x.dtype)
    assert node.bytes_sent.tolist() == [exchanges * 2 * (vectors * size + by_push_sum)] * 4


def centralised(name, x, problem, count):
    """Each method on one node, where A = [1], by a second implementation, entry by entry."""
    gradient = problem.gradient
    name = ON_ONE_NODE.get(name, name)
    a, b1, b2 = 0.01, 0.9, 0.999
    m = v = vh = 0.0
    g = gradient(1, x)
    if name in ("gt-adaptive-vr", "gt-sarah", "gt-svrg", "gt-hsgd"):
        return centralised_without_variance(name, x, problem, count)
    if name in ("gt-adaptive", "gt-adaptive-compressed"):
        v = g**2
    for t in range(1, count + 1):
        at = 100 * a / (100 + t**0.5)
        if name in ("gt", "dsgd", "exact-diffusion", "extra", "k-gt", "beer", "choco-sgd", "lead"):
            x = x - a * g
        elif name in ("dsgd-momentum", "decentlam", "momentum-tracking"):
            m = b1 * m + g
            x = x - a * m
        elif name == "qg-dsgdm":
            x = x - a * (b1 * m + g)
            m = b1 * m + (1 - b1) * (b1 * m + g)
        else:
            m = b1 * m + (1 - b1) * g
            v = b2 * v + (1 - b2) * g**2
            if name in ("gt-adaptive", "gt-adaptive-compressed"):
                v = np.clip(v, 1e-8 if name == "gt-adaptive" else 1e-4, 100)
                x = x - a * m / v**0.5
            elif name == "gtadam":
                x = x - a * m / (v + 1e-8) ** 0.5
            elif name == "d-amsgrad":
                vh = np.maximum(vh, v)
                x = x - at * m / (vh**0.5 + 1e-8)
            else:
                assert name == "d-adabound"
                lowest, highest = 0.1 * (1 - 1 / (0.001 * t + 1)), 0.1 * (1 + 1 / (0.001 * t))
                x = x - at / a * np.clip(a / (v**0.5 + 1e-8), lowest, highest) * m
        g = gradient(t + 1, x)
    return x


def centralised_without_variance(name, x, problem, count):
    """The same for the four methods with an estimator u, with a refresh every 64 steps."""

    def full(x):
        return problem.evaluate(x)[1]

    a, m, w, f = 0.01, 0.0, x, full(x)
    u = f
    v = u**2
    for t in range(1, count + 1):
        step = u
        if name == "gt-adaptive-vr":
            m, v = 0.9 * m + 0.1 * u, np.clip(0.999 * v + 0.001 * u**2, 1e-4, 100)
            step = m / v**0.5
        old, x = x, x - a * step
        new, before = problem.gradient(t + 1, x), problem.gradient(t + 1, old)
        if name == "gt-hsgd":
            u = 0.1 * new + 0.9 * (u + new - before)
        elif t % 64 == 0:
            u = f = full(x)
            w = x
        elif name == "gt-svrg":
            u = f + new - problem.gradient(t + 1, w)
        else:
            u = u + new - before
    return x


@pytest.mark.parametrize("name", ALGORITHMS)
def test_on_one_node_it_is_its_centralised_form(name):
    node, problem, x = stacked(1)
    *_, last = steps(ALGORITHMS[name](), node, problem, x, 200)
    expected = centralised(name, x, problem, 200)
    np.testing.assert_allclose(last.x, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["gt", "dsgd"])
def test_atc_by_hand(name):
    node, problem, x = stacked(5, "ring", noise=0.0)
    algorithm = ALGORITHMS[name](order="atc", lr=0.1)
    first, second = steps(algorithm, node, problem, x + np.arange(10.0), 1)
    direction = first.s if name == "gt" else first.g
    expected = node.send(first.x - 0.1 * direction).wait()
    np.testing.assert_allclose(second.x, expected, atol=1e-15)


def test_dampening_by_hand():
    node, problem, x = stacked(3, "ring")
    first, second = steps(ALGORITHMS["dsgd-momentum"](dampening=0.25), node, problem, x, 1)
    np.testing.assert_allclose(second.m, 0.75 * first.g)


# noise-free, every node with a minimiser of its own: which methods reach a stationary point?
EXACT = {
    "gt-adaptive": {"lr": 0.005, "vmin": 0.01, "beta1": 0.5},
    "gt": {"lr": 0.2},
    "gtadam": {"lr": 0.005, "eps": 0.01, "beta1": 0.5},
    "gt-adaptive-vr": {"lr": 0.005, "vmin": 0.01, "beta1": 0.5},
    "gt-sarah": {"lr": 0.2},
    "gt-svrg": {"lr": 0.2},
    "gt-hsgd": {"lr": 0.2},
    "exact-diffusion": {"lr": 0.5},
    "extra": {"lr": 0.5},
    "k-gt": {"lr": 0.05},
    "momentum-tracking": {"lr": 0.02},
}
BIASED = {
    "dsgd": {"lr": 0.2},
    "dsgd-momentum": {"lr": 0.02},
    "decentlam": {"lr": 0.2},
    "qg-dsgdm": {"lr": 0.2},
}


@pytest.mark.parametrize("name", [*EXACT, *BIASED])
def test_which_methods_reach_a_stationary_point_of_a_heterogeneous_problem(name):
    node, problem, x = stacked(6, "ring", seeds=(0,), spread=0.5, noise=0.0, threshold=10.0, dim=4)
    algorithm = ALGORITHMS[name](**{**EXACT, **BIASED}[name])
    *_, last = steps(algorithm, node, problem, x, 6000)
    gap = gap_of(problem, last.x)
    if name in EXACT:
        assert gap < 1e-20
    else:
        assert gap > 1e-5


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gt", {"order": "other"}),
        ("dsgd", {"order": ""}),
        ("dsgd", {"lr": -1.0}),
        ("dsgd-momentum", {"beta1": 1.0}),
        ("dsgd-momentum", {"dampening": 1.0}),
        ("decentlam", {"beta1": -0.5}),
        ("d-amsgrad", {"eps": 0.0}),
        ("d-amsgrad", {"beta2": 1.0}),
        ("d-adabound", {"final_lr": 0.0}),
        ("d-adabound", {"final_lr": float("nan")}),
        ("gtadam", {"eps": -1.0}),
        ("gtadam", {"schedule": "none"}),
        ("d-amsgrad", {"beta3": 1.0}),
        ("d-amsgrad", {"beta3": -0.1}),
        ("dsgd", {"every": 0, "order": "atc"}),
        ("dsgd", {"every": 2}),
        ("exact-diffusion", {"every": 0}),
        ("exact-diffusion", {"every": -1}),
        ("k-gt", {"every": 0}),
        ("k-gt", {"eta": 0.0}),
        ("k-gt", {"eta": 1.1}),
        ("gt-hsgd", {"beta": 1.1}),
        ("gt-hsgd", {"beta": float("nan")}),
        ("gt-hsgd", {"start": "none"}),
        ("gt-hsgd", {"order": "none"}),
        ("gt-sarah", {"period": 0}),
        ("gt-sarah", {"order": "none"}),
        ("gt-svrg", {"period": 0}),
        ("gt-adaptive-vr", {"period": -1}),
        ("gt-adaptive-vr", {"beta": -0.1}),
        ("gt-adaptive-vr", {"start": "none"}),
        ("gt-adaptive-vr", {"vmin": 0.0}),
        ("momentum-tracking", {"beta1": 1.0}),
        ("qg-dsgdm", {"beta1": -0.1}),
        ("extra", {"lr": 0.0}),
    ],
    ids=str,
)
def test_domains(name, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        ALGORITHMS[name](**options)


def test_diminishing_steps_are_the_default_where_the_paper_says_so():
    schedules = {name: ALGORITHMS[name]().schedule for name in ALGORITHMS}
    assert {name for name, value in schedules.items() if value == "sqrt"} == {
        "d-amsgrad",
        "d-adabound",
    }
