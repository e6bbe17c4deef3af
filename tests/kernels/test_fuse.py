"""Recorded steps of algorithms and entrywise functions: the same bits as by Python."""

import contextlib
import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from mpi_gt import kernels
from mpi_gt.algorithms import ALGORITHMS, Algorithm
from mpi_gt.fuse import compiled, entrywise, fused

pytestmark = pytest.mark.usefixtures("kernels_built")


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


def compressed(*vectors):
    return tuple((0.25 * z, Mixed(z)) for z in vectors)


mix.compressed = compressed


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


class Grad:
    """The gradients of 0.5 ||x - target||²; the exact one is another, so that it shows."""

    def __init__(self, target):
        self.target = target

    def __call__(self, x):
        return x - self.target

    def full(self, x):
        return 0.5 * x - self.target


CASES = [
    *((name, {}) for name in ALGORITHMS),
    *((name, {"schedule": "sqrt"}) for name in ALGORITHMS),
    ("gt", {"order": "atc"}),
    ("dsgd", {"order": "atc"}),
    ("gt-adaptive-vr", {"period": 0, "beta": 0.1}),
    ("gt-hsgd", {"order": "atc", "beta": 1.0}),
    ("d-amsgrad", {"beta3": 0.5}),
]
BY_PHASE = [
    ("gt-adaptive-vr", {"period": 7}),
    ("gt-adaptive-vr", {"period": 7, "beta": 1.0, "schedule": "sqrt"}),
    ("gt-adaptive-compressed", {"period": 7, "beta": 0.25, "compress": "sign"}),
    ("gt-sarah", {"period": 5}),
    ("gt-sarah", {"period": 5, "order": "atc"}),
    ("gt-svrg", {"period": 5, "schedule": "sqrt"}),
    ("exact-diffusion", {"every": 3}),
    ("dsgd", {"every": 4, "order": "atc"}),
    ("k-gt", {"every": 4, "schedule": "sqrt"}),
]
RECORDED_BY_PHASE = ("gt-adaptive-vr", "gt-sarah", "gt-svrg", "k-gt")  # with their defaults
AS_WRITTEN = ("sgp", "push-diging")  # they divide x by a column


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_algorithm_is_recorded_and_gives_the_same_bits(name, options, dtype):
    for shape in ((1, 10), (3, 700), (2, 3, 5)):
        algorithm = ALGORITHMS[name](**options).fitted(np.zeros(shape[-2:], dtype), name)
        grad = Grad(np.random.default_rng(0).standard_normal(shape).astype(dtype))
        start = algorithm.init(np.zeros(shape, dtype), grad)
        step = compiled(algorithm, start)
        by_phase = name in RECORDED_BY_PHASE and options.get("period") != 0
        assert by_phase or name in AS_WRITTEN or isinstance(step, kernels.C.Replay)
        expected = trajectory(algorithm.step, start, grad)
        assert_same_states(trajectory(step, start, grad), expected)


@pytest.mark.parametrize(("name", "options"), BY_PHASE, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_step_that_decides_on_t_is_recorded_once_per_phase(name, options, dtype):
    for shape in ((1, 10), (2, 3, 5)):
        algorithm = ALGORITHMS[name](**options).fitted(np.zeros(shape[-2:], dtype), name)
        grad = Grad(np.random.default_rng(0).standard_normal(shape).astype(dtype))
        start = algorithm.init(np.zeros(shape, dtype), grad)
        step = compiled(algorithm, start)
        assert step != algorithm.step
        expected = trajectory(algorithm.step, start, grad)
        assert_same_states(trajectory(step, start, grad), expected)
        assert {type(each) for each in step.steps.values()} == {kernels.C.Replay}
        assert set(step.steps) == {True, False}


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


class WithPhases(Own):
    def phase(self, t):
        return "warm-up" if t <= 20 else t % 3 == 0

    @fused
    def step(self, t, state, mix, grad):
        x = state.x
        if t <= 20 or t % 3 == 0:
            x = mix(x).wait()
            x = mix(x).wait()
        x = x - (0.1 if t > 20 else 0.2) * state.g
        return State(x, grad(x))


class WithPhasesThatCannotBeRecorded(WithPhases):
    @fused
    def step(self, t, state, mix, grad):
        if t <= 20:
            return super().step(t, state, mix, grad)
        return State(mix(state.x).wait() / np.linalg.norm(state.g), state.g)


class Late(Own):
    @fused
    def step(self, t, state, mix, grad):
        (first,) = mix(state.x)
        (second,) = mix(state.g)
        return State(first.wait(), second.wait())


def test_a_users_phases():
    algorithm = WithPhases()
    start = algorithm.init(np.full((2, 3), 0.1), np.sin)
    step = compiled(algorithm, start)
    assert_same_states(trajectory(step, start, np.sin), trajectory(algorithm.step, start, np.sin))
    assert set(step.steps) == {"warm-up", True, False}
    assert {type(each) for each in step.steps.values()} == {kernels.C.Replay}


def test_a_phase_that_cannot_be_recorded_is_left_to_the_step():
    algorithm = WithPhasesThatCannotBeRecorded()
    start = algorithm.init(np.full((2, 3), 0.1), np.sin)
    guarded = []

    def otherwise(t, *rest):
        guarded.append(t)
        return algorithm.step(t, *rest)

    step = compiled(algorithm, start, otherwise)
    assert_same_states(
        trajectory(step, start, np.sin, 24), trajectory(algorithm.step, start, np.sin, 24)
    )
    assert guarded == [21, 22, 23]


def test_a_result_that_is_waited_for_after_the_next_mix_is_not_recorded():
    """On ranks that is an error; recorded, it would be the result of the other mix."""
    algorithm = Late()
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
    del step  # which keeps its last arrays for reuse
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


def test_states_are_made_of_the_arrays_of_the_last_but_one():
    algorithm = ALGORITHMS["gt-adaptive"]()
    start = algorithm.init(np.ones((1, 10)), np.sin)
    step, node, seen = compiled(algorithm, start), kernels.C.NodeCounters(), []

    def remembering(t, state, mix, grad):
        state = step(t, state, mix, grad)
        seen.append(tuple(map(id, (state.x, state.m, state.v, state.s))))
        return state

    t, states = 0, [start]
    while t < 60:
        node.due = t + 7  # returning to the caller makes no difference
        t = kernels.C.advance(remembering, node, mix, np.sin, 60, t, states)
    assert len(set(seen[5:])) == 2
