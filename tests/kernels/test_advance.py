"""The loop over iterations: compiled, and its Python reference."""

import signal
import sys
import time
from functools import partial

import pytest

from mpi_gt import kernels
from mpi_gt.kernels import reference as twins

pytestmark = pytest.mark.usefixtures("kernels_built")


def test_the_gradient_of_the_iteration_to_come():
    for way in (kernels.C, twins):
        node = way.NodeCounters()
        node.iteration = 41
        grad = way.NextGradient(node, lambda t, x: (t, x), lambda x: ["full", x], 32, 2000)
        assert node.gradients == 0
        assert grad("x") == (42, "x")
        assert grad("y") == (42, "y")
        assert grad.full("z") == ["full", "z"]
        assert node.gradients == 2064


def test_errors_of_gradients_are_the_caller_s():
    for way in (kernels.C, twins):
        grad = way.NextGradient(way.NodeCounters(), lambda t, x: 1 / 0, lambda x: 1 / 0, 1, 1)
        for call in (grad, grad.full):
            with pytest.raises(ZeroDivisionError):
                call("x")
        with pytest.raises(TypeError):
            grad()


@pytest.mark.parametrize("way", [kernels.C, twins], ids=["compiled", "twin"])
class TestAdvance:
    def test_it_goes_on_until_something_is_due(self, way):
        node, taken = way.NodeCounters(), []

        def step(t, state, mix, grad):
            assert (node.iteration, mix, grad) == (t, "mix", "grad")
            taken.append(t)
            if t == 12:
                node.due = 13  # the event at 20 becomes due at once
            return f"state {t}"

        advance = partial(way.advance, step, node, "mix", "grad", 15)
        states = ["start"]
        assert (advance(0, states), states) == (1, ["start", "state 1"])
        node.due = 5
        assert (advance(1, states), states) == (5, ["state 4", "state 5"])
        node.due = 20
        assert (advance(5, states), states) == (13, ["state 12", "state 13"])
        node.due = 20
        assert (advance(13, states), states) == (15, ["state 14", "state 15"])
        assert taken == list(range(1, 16))
        assert (advance(15, states), states) == (15, [None, "state 15"])

    def test_it_returns_after_the_deadline(self, way):
        node = way.NodeCounters()
        assert node.deadline == 0
        node.due = 10**9
        node.deadline = time.monotonic() - 1
        advance = partial(way.advance, lambda t, *rest: t, node, None, None, 10**9)
        states = ["start"]
        assert advance(0, states) == 1
        node.deadline = end = time.monotonic() + 0.05
        assert advance(1, states) > 2
        assert end <= time.monotonic() < end + 5

    def test_an_error_and_a_signal_end_it(self, way, request):
        # a shell makes its background jobs ignore this signal
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
        node = way.NodeCounters()
        node.due = 1000

        def step(t, state, mix, grad):
            if t == 3:
                signal.raise_signal(signal.SIGINT)
            return state

        state = ["some state"]
        references = sys.getrefcount(state)
        with pytest.raises(KeyboardInterrupt):
            way.advance(step, node, None, None, 1000, 0, [state])
        assert node.iteration in (3, 4)
        with pytest.raises(ZeroDivisionError):
            way.advance(lambda *_: 1 / 0, node, None, None, 1000, 0, [state])
        assert sys.getrefcount(state) == references
