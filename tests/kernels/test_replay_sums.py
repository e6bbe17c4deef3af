"""Recorded steps that add up what the neighbours sent on the way: the same bits as wait by wait."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from transfers import Sent

from mpi_gt import kernels
from mpi_gt.algorithms import ALGORITHMS, Algorithm
from mpi_gt.fuse import compiled, fused
from mpi_gt.kernels import reference as twins

pytestmark = pytest.mark.usefixtures("kernels_built")

SHAPES = [(1, 3), (3, 700), (2, 512), (1, 1100)]  # a part of a block, and some blocks


class State(NamedTuple):
    x: np.ndarray
    s: np.ndarray


class Own(Algorithm):
    """Base class of the methods below."""

    State = State

    def init(self, x, grad):
        return State(x, grad(x))


@dataclass(frozen=True)
class Both(Own):
    """Two results of mix in one update, and none in between."""

    @fused
    def step(self, t, state, mix, grad):
        ax, as_ = mix(state.x, state.s)
        a, b = ax.wait(), as_.wait()
        return State(a - 0.1 * b + grad(state.x), b * a)


@dataclass(frozen=True)
class Kept(Own):
    """A result of mix that is a field of the next state and an operand: it has to be an array."""

    @fused
    def step(self, t, state, mix, grad):
        ax, as_ = mix(state.x, state.s)
        a = ax.wait()
        return State(a, as_.wait() + a)


@dataclass(frozen=True)
class Given(Own):
    """A result of mix that the gradient is taken at."""

    @fused
    def step(self, t, state, mix, grad):
        ax, as_ = mix(state.x, state.s)
        return State(state.x - 0.1 * grad(ax.wait()), as_.wait() + 1.0)


METHODS = [Both(), Kept(), Given(), ALGORITHMS["gt-adaptive"](), ALGORITHMS["gt"]()]


def take_steps(way, step, state, shape, dtype, profiled=False):
    """Return the states of some steps, with messages that are there beforehand."""
    sent = Sent(way, (2,), 5, shape, dtype)
    if profiled:
        sent.transfer.watch(np.zeros(1000, np.int64), 1, 2)
    states = [state]
    for t in range(1, 4):
        states.append(step(t, states[-1], sent.transfer, lambda x: 0.5 * x + 0.25))
    return [array.tobytes() for each in states for array in each]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_same_states_as_wait_by_wait(method, shape, dtype):
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    state = method.init(x, lambda x: 0.5 * x)
    expected = take_steps(twins, method.step, state, shape, dtype)
    step = compiled(method, state)
    assert type(step) is kernels.C.Replay
    assert take_steps(kernels.C, step, state, shape, dtype) == expected
    assert take_steps(kernels.C, step, state, shape, dtype, profiled=True) == expected


def test_a_result_of_another_shape_is_refused():
    method = ALGORITHMS["gt"]()
    state = method.init(np.ones((1, 3)), lambda x: x)
    step = compiled(method, state)
    other = Sent(kernels.C, (2,), 5, (1, 4))
    with pytest.raises(ValueError, match="another shape"):
        step(1, state, lambda *_: other.transfer(*np.ones((2, 1, 4))), lambda x: x)
