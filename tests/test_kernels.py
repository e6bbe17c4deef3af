"""The compiled kernels against the same in numpy: to the last bit, but for the Huber products."""

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support import skip_or_fail

from mpi_gt import kernels
from mpi_gt.algorithms import ALGORITHMS, Algorithm
from mpi_gt.exchange import Message
from mpi_gt.fuse import compiled, entrywise, fused
from mpi_gt.graphs import Row
from mpi_gt.plan import Combine
from mpi_gt.problems import Place
from mpi_gt.problems.base import Draws
from mpi_gt.problems.huber import Huber
from mpi_gt.problems.slopes import slopes
from mpi_gt.problems.truncated_normal import TruncatedNormal

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def built():
    if kernels.C is None:
        skip_or_fail("the kernels were not built: is there a C compiler?")


@pytest.fixture
def by_numpy(monkeypatch):
    """What a function gives without the kernels."""

    def call(function):
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "C", None)
            return function()

    return call


class Mixed:
    def __init__(self, z):
        self.z = z

    def wait(self):
        return 0.5 * self.z + 0.125


class Results(tuple):
    def wait(self):
        (only,) = self
        return only.wait()


def mix(*vectors):
    return Results(map(Mixed, vectors))


def trajectory(step, state, grad, steps=40):
    states = [state]
    for t in range(1, steps):
        states.append(step(t, states[-1], mix, grad))
    return states


def assert_same_states(some, others):
    for one, other in zip(some, others, strict=True):
        assert type(one) is type(other)
        for a, b in zip(one, other, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


CASES = [
    *((name, {}) for name in ALGORITHMS),
    *((name, {"schedule": "sqrt"}) for name in ALGORITHMS),
    ("gt", {"order": "atc"}),
    ("dsgd", {"order": "atc"}),
]


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_algorithm_is_recorded_and_gives_the_same_bits(name, options, dtype):
    algorithm = ALGORITHMS[name](**options)
    for shape in ((1, 10), (3, 700), (2, 3, 5)):
        target = np.random.default_rng(0).standard_normal(shape).astype(dtype)

        def grad(x, target=target):
            return x - target

        start = algorithm.init(np.zeros(shape, dtype), grad)
        step = compiled(algorithm, start)
        assert isinstance(step, kernels.C.Replay)
        expected = trajectory(algorithm.step, start, grad)
        assert_same_states(trajectory(step, start, grad), expected)


class State(NamedTuple):
    x: np.ndarray
    g: np.ndarray


@dataclass(frozen=True)
class Own(Algorithm):
    State = State

    def init(self, x, grad):
        return State(x, grad(x))


class Normed(Own):
    @fused
    def step(self, t, state, mix, grad):
        x = mix(state.x).wait() - self.lr * state.g / np.linalg.norm(state.g)
        return State(x, grad(x))


class Deciding(Own):
    @fused
    def step(self, t, state, mix, grad):
        x = mix(state.x).wait() - (0.1 if t > 20 else 0.2) * state.g
        return State(x, grad(x))


class Summing(Own):
    @fused
    def step(self, t, state, mix, grad):
        x = mix(state.x).wait() - 0.1 * state.g.sum() * np.add.reduce(state.g)
        return State(x, grad(x))


class WithAnArray(Own):
    @fused
    def step(self, t, state, mix, grad):
        x = mix(state.x).wait() - np.arange(1.0, 4.0) * state.g
        return State(x, grad(x))


class WithANumpyNumber(Own):
    @fused
    def step(self, t, state, mix, grad):
        x = mix(state.x).wait() - np.float64(0.1) * state.g
        return State(x, grad(x))


class Unmarked(Own):
    def step(self, t, state, mix, grad):
        x = mix(state.x).wait() - self.lr * state.g
        return State(x, grad(x))


class Marked(Own):
    @fused
    def step(self, t, state, mix, grad):
        x = mix(state.x).wait() - (self.lr + 1 / t) * abs(-state.g) + np.square(state.x)
        return State(x, grad(x))


class Overriding(Marked):
    def step(self, t, state, mix, grad):
        return super().step(t, state, mix, grad)


@pytest.mark.parametrize(
    "kind",
    [Normed, Deciding, Summing, WithAnArray, WithANumpyNumber, Unmarked, Overriding],
)
def test_what_is_more_than_entrywise_or_not_marked_is_called_as_it_is(kind):
    algorithm = kind()
    assert compiled(algorithm, algorithm.init(np.ones((2, 3)), np.sin)) == algorithm.step


def test_a_users_step_is_recorded_where_it_is_marked():
    algorithm = Marked()
    start = algorithm.init(np.full((2, 3), 0.1), np.sin)
    step = compiled(algorithm, start)
    assert isinstance(step, kernels.C.Replay)
    expected = trajectory(algorithm.step, start, np.sin, 5)
    assert_same_states(trajectory(step, start, np.sin, 5), expected)


def test_states_of_other_arrays_are_left_to_the_step():
    algorithm = Marked()
    step = compiled(algorithm, algorithm.init(np.ones((2, 3)), np.sin))
    for x in (np.ones((3, 2)).T, np.ones((2, 3), np.float16), np.ma.ones((2, 3))):
        state = State(x, np.sin(x))
        expected = algorithm.step(1, state, mix, np.sin)
        assert_same_states([step(1, state, mix, np.sin)], [expected])


def test_results_of_mix_and_grad_may_be_any_arrays_of_the_shape():
    algorithm = Marked()
    start = algorithm.init(np.ones((2, 3)), np.sin)
    step = compiled(algorithm, start)

    def transposed(x):
        return np.asfortranarray(np.sin(x))

    assert_same_states([step(1, start, mix, transposed)], [step(1, start, mix, np.sin)])
    with pytest.raises(ValueError, match="shape"):
        step(1, start, mix, lambda x: np.ones(3))
    with pytest.raises(ZeroDivisionError):
        step(1, start, mix, lambda x: 1 / 0)


def test_a_step_that_fails_holds_on_to_nothing():
    algorithm = Marked()
    start = algorithm.init(np.ones((1, 1000)), np.sin)
    step = compiled(algorithm, start)
    seen = []

    def failing(x):
        seen.append(x)
        raise RuntimeError

    with contextlib.suppress(RuntimeError):
        step(1, start, mix, failing)
    count = sys.getrefcount(seen[0])  # outside of the assertion, which pytest rewrites
    assert count == 2


def test_entrywise_functions():
    def function(a, b):
        return np.maximum(np.minimum(a, 2.0), -b) / (1 + a * a)

    quick = entrywise(function, arrays=2)
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 1300))
    a[7] = np.nan
    np.testing.assert_array_equal(quick(a, b), function(a, b))
    np.testing.assert_array_equal(quick(a[::2], b[::2]), function(a[::2], b[::2]))
    np.testing.assert_array_equal(quick(a, b[:1]), function(a, b[:1]))


@pytest.mark.parametrize("width", [1, 3, 10, 123, 300, 100_000])
def test_the_same_draws(by_numpy, width):
    place = Place(3, 5, (0, 7, 2**63 + 5))
    compiled_draws, draws = Draws(place, 4, width), by_numpy(lambda: Draws(place, 4, width))
    for t in (1, 2, 3, 16, 17, 255, 256, 257, 1000, 5):
        expected = by_numpy(lambda t=t: draws(t))
        np.testing.assert_array_equal(compiled_draws(t), expected)
        assert not compiled_draws(t).flags.writeable


def test_the_same_noise(by_numpy):
    uniform = np.random.default_rng(0).random((3, 50, 10))
    samples = TruncatedNormal(0.2, 0.1).sample(uniform)
    plain = by_numpy(lambda: TruncatedNormal(0.2, 0.1).sample(uniform))
    np.testing.assert_array_equal(samples, plain)
    assert np.abs(samples).max() <= 0.1


@pytest.mark.parametrize("degree", [0, 1, 4, 9, 70])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_same_sums(by_numpy, degree, dtype):
    random = np.random.default_rng(degree)
    for length in (1, 10, 5000):
        row = Row(degree // 2, tuple(j for j in range(degree + 1) if j != degree // 2),
                  random.random(degree), 0.3)  # fmt: skip
        received = random.standard_normal((degree, length + 2)).astype(dtype)[:, 2:]
        own = random.standard_normal(length).astype(dtype)
        combined = Combine(row, length, np.dtype(dtype))(received, own)
        plain = by_numpy(lambda: Combine(row, length, np.dtype(dtype))(received, own))  # noqa: B023
        assert combined.dtype == dtype
        np.testing.assert_array_equal(combined, plain)


def test_the_same_message():
    vectors = tuple(np.random.default_rng(0).standard_normal((2, 3, 4)))
    some, other = (Message(2, 2, (3, 4), np.dtype(float)) for _ in range(2))
    assert some.pack(5, 9, vectors)
    assert other.fill(5, 9, vectors)
    np.testing.assert_array_equal(some.send, other.send)
    some.receive[:] = some.send
    assert some.agrees()
    some.receive[1, 0] = 4
    assert not some.agrees()
    short = vectors[0], vectors[1][:2]
    assert not some.pack(5, 9, short)
    with pytest.raises(ValueError, match="mix got a vector of shape"):
        some.fill(5, 9, short)
    mixed = vectors[0].astype(np.float32), vectors[1]
    assert not some.pack(6, 9, mixed)
    assert some.fill(6, 9, mixed)
    np.testing.assert_array_equal(some.slots[0], vectors[0].astype(np.float32))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dim": 1},
        {"dim": 64, "reduce": "mean"},
        {"dim": 65},
        {"noise": 0.0},
        {"phi": "diagonal"},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_huber_gradient_but_for_rounding(by_numpy, options, dtype):
    place = Place(1, 4, (3, 4, 5), np.dtype(dtype))
    problem = Huber(place, **options)
    plain = by_numpy(lambda: Huber(place, **options))
    x = np.random.default_rng(0).uniform(-4, 4, (3, problem.dim)).astype(dtype)
    for t in (1, 2, 300):
        gradient = problem.gradient(t, x)
        expected = by_numpy(lambda t=t: plain.gradient(t, x))
        assert gradient.dtype == dtype
        tolerance = 1e-13 if dtype == np.float64 else 1e-5
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("shape", [(50, 1, 10), (333, 10, 7), (3, 2, 2000), (1, 1, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_softmax_slopes_but_for_rounding(by_numpy, shape, dtype):
    random = np.random.default_rng(0)
    rows, groups, classes = shape
    spread = np.exp(random.uniform(-3, 7, (rows, groups, 1)))
    z = (random.standard_normal(shape) * spread).astype(dtype)
    labels = random.integers(0, classes, rows)
    z[: rows // 2, :, 0] = z[: rows // 2].max(axis=2)  # often two are the largest: the first counts

    def compute():
        slope, loss, correct = z.copy(), np.ones(groups), np.ones(groups, np.int64)
        slopes(slope, labels, 0.25, loss, correct)
        return slope, loss, correct

    (slope, loss, correct), (expected, expected_loss, expected_correct) = (
        compute(),
        by_numpy(compute),
    )
    epsilon = 2e-16 if dtype == np.float64 else 1e-6
    assert slope.dtype == dtype
    np.testing.assert_allclose(slope, expected, rtol=0, atol=epsilon)
    np.testing.assert_allclose(loss, expected_loss, rtol=10 * epsilon)
    np.testing.assert_array_equal(correct, expected_correct)


def test_what_is_not_finite_stays_so():
    z = np.array([[[np.nan, 1.0, 2.0]], [[np.inf, 1.0, 2.0]]])
    loss = np.zeros(1)
    slopes(z, np.array([0, 1]), 1.0, loss)
    assert np.isnan(z).any(axis=2).all()
    assert np.isnan(loss[0])


def test_a_run_without_the_kernels(tmp_path, call, openmpi):
    """The same numbers but for rounding; run.json says which it was."""
    outputs = []
    for name in ("c", "numpy"):
        out = tmp_path / name
        words = openmpi.mpi_gt("run", "-n", "4", "--iterations=200", "--seeds=3", f"--out={out}")
        call([*words, "--quiet"], env={"MPI_GT_KERNELS": name})
        assert json.loads((out / "run.json").read_text())["kernels"] == name
        outputs.append(np.load(out / "final.npz")["x"])
    np.testing.assert_allclose(*outputs, rtol=0, atol=1e-11)


def test_every_source_is_built():
    listed = (ROOT / "pyproject.toml").read_text()
    for path in (ROOT / "mpi_gt" / "kernels").glob("*.[ch]"):
        assert f'"{path.relative_to(ROOT)}"' in listed
