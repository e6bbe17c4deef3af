"""Threads that take turns, and the exchanges of a stacked run node by node."""

import threading
from typing import NamedTuple

import numpy as np
import pytest

from mpi_gt.comm.by_node import NodeByNode
from mpi_gt.comm.stacked import StackedNode
from mpi_gt.comm.turns import Stuck, Turns
from mpi_gt.graphs import build_network


@pytest.fixture
def turns():
    made = Turns(3)
    yield made
    made.close()


def test_one_runs_at_a_time_in_order(turns):
    log = []

    def work(i):
        log.append(f"{i} begins")
        turns.wait_until(i, lambda: len(log) >= 3 + i)
        log.append(f"{i} ends")
        return i * i

    for _ in range(3):
        log.clear()
        assert turns.run(work) == [0, 1, 4]
        assert log == ["0 begins", "1 begins", "2 begins", "0 ends", "1 ends", "2 ends"]


def test_a_failure_ends_the_others(turns):
    ended = []

    def work(i):
        if i == 2:
            raise KeyError("odd")
        try:
            turns.wait_until(i, lambda: False)
        finally:
            ended.append(i)

    with pytest.raises(KeyError, match="odd"):
        turns.run(work)
    assert ended == [0, 1]
    assert not [t for t in threading.enumerate() if t.name.startswith("node ")]


def test_those_that_wait_for_ever_are_found(turns):
    with pytest.raises(Stuck) as caught:
        turns.run(lambda i: i if i == 1 else turns.wait_until(i, lambda: False))
    assert caught.value.waiting == [0, 2]


class Bowl:
    def gradient(self, t, x):
        return x


class State(NamedTuple):
    x: np.ndarray


class Method:
    """A method whose exchanges a test gives."""

    def __init__(self, step):
        self.step = lambda t, state, mix, grad: step(state, mix)


def by_node(*steps):
    network = build_network("ring", None, len(steps))
    node = StackedNode(network.arcs)
    rows = [network.row(i) for i in range(len(steps))]
    gradients = [(Bowl().gradient, Bowl().gradient)] * len(steps)
    return NodeByNode([Method(s) for s in steps], node, gradients, (1, 1), rows), node


def mixed(state, mix):
    return State(mix(state.x).wait())


def test_a_neighbour_that_does_not_take_part():
    method, _ = by_node(mixed, lambda state, mix: state, mixed)
    with pytest.raises(RuntimeError, match="node 0 waits for vectors that a neighbour does not"):
        method.step(1, State(np.zeros((3, 1, 2))), None, None)


WRONG = {
    "other shapes": (lambda s, mix: State(mix(s.x[:, :1]).wait()), r"mixes 1 vectors of shape"),
    "more vectors": (lambda s, mix: State(mix(s.x, s.x)[0].wait()), r"mixes 1 vectors of shape"),
    "forgotten": (lambda s, mix: mix(s.x) and s, "never waited for"),
    "nothing": (lambda s, mix: mix(), "takes 1 vector or more"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_exchanges(case):
    step, message = WRONG[case]
    method, _ = by_node(mixed, step, mixed)
    with pytest.raises((RuntimeError, ValueError), match=message):
        method.step(1, State(np.zeros((3, 1, 2))), None, None)


def test_results_are_waited_for_once():
    def twice(state, mix):
        pending = mix(state.x)
        pending.wait()
        return State(pending.wait())

    method, _ = by_node(twice, twice, twice)
    with pytest.raises(RuntimeError, match="waited for already"):
        method.step(1, State(np.zeros((3, 1, 2))), None, None)


def test_the_sums_and_bytes_of_all_nodes():
    method, node = by_node(*[mixed] * 5)
    x = np.random.default_rng(0).standard_normal((5, 2, 3))
    (made,) = method.step(1, State(x), None, None)
    matrix = build_network("ring", None, 5).matrix
    np.testing.assert_allclose(made, np.tensordot(matrix, x, axes=1), atol=1e-15)
    assert not made.flags.writeable
    assert node.bytes_sent.tolist() == [2 * 2 * 3 * 8] * 5
    method.close()
