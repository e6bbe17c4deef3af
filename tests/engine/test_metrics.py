"""Measuring: the sums of a rank, and values that are not finite."""

from typing import NamedTuple

import numpy as np
import pytest

from mpi_gt import kernels
from mpi_gt.comm.stacked import StackedNode
from mpi_gt.engine.metrics import CONSENSUS, SUSPECT, _local_metrics, measure
from mpi_gt.errors import Diverged
from mpi_gt.graphs import build_network

NODES, SEEDS, DIM = 4, 3, 5


class State(NamedTuple):
    x: np.ndarray
    s: np.ndarray
    m: np.ndarray
    g: np.ndarray


class Quadratic:
    """f_i(x) = ||x||² / 2 on all nodes, at one x for all of them."""

    def evaluate(self, x):
        values = np.square(x).sum(axis=-1) / 2, x
        return tuple(np.repeat(value[np.newaxis], NODES, axis=0) for value in values)


class Classifier(Quadratic):
    def accuracy(self, x):
        return np.add.outer(np.arange(NODES), np.arange(SEEDS) / 10)


class Spoiled(Quadratic):
    """A problem in which one number of one node's answer is replaced."""

    def __init__(self, which, value):
        self.which, self.value = which, value

    def evaluate(self, x):
        answer = super().evaluate(x)
        answer[self.which][1, 2] = self.value
        return answer


def state_of(*shape, dtype=np.float64):
    random = np.random.default_rng(0)
    return State(*(random.standard_normal(shape).astype(dtype) for _ in State._fields))


def measured(state, tracks=True, problem=None):
    node = StackedNode(build_network("ring", None, NODES).arcs)
    node.bytes_sent = np.array([3, 30, 300, 2**40])
    with np.errstate(all="ignore"):
        return measure(node, problem or Quadratic(), state, tracks, (7, 8, 9))


def test_what_is_measured():
    state = state_of(NODES, SEEDS, DIM)
    it, xbar = measured(state), state.x.mean(axis=0)
    np.testing.assert_allclose(it.loss, (xbar**2).sum(axis=-1) / 2)
    np.testing.assert_allclose(it.grad_norm2, (xbar**2).sum(axis=-1))
    np.testing.assert_allclose(it.consensus, ((state.x - xbar) ** 2).sum(axis=-1).mean(axis=0))
    error = state.s.mean(axis=0) - state.g.mean(axis=0)
    np.testing.assert_allclose(it.tracking, np.linalg.norm(error, axis=-1))
    assert it.lost.all()
    assert it.accuracy is None
    assert it.bytes == (333 + 2**40) / SEEDS
    assert measured(state, tracks=False).tracking is None


@pytest.mark.parametrize("tracks", [True, False])
@pytest.mark.parametrize("field", State._fields)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_found_wherever_it_is(field, value, tracks):
    state = state_of(NODES, SEEDS, DIM)
    getattr(state, field)[2, 1, 3] = value
    with pytest.raises(Diverged, match="after iteration 0: node 2, seed 8"):
        measured(state, tracks)


def test_with_an_accuracy():
    state = state_of(NODES, SEEDS, DIM)
    for tracks in (True, False):
        it, plain = (measured(state, tracks, problem) for problem in (Classifier(), Quadratic()))
        np.testing.assert_allclose(it.accuracy, 1.5 + np.arange(SEEDS) / 10)
        np.testing.assert_array_equal(it.grad_norm2, plain.grad_norm2)
        np.testing.assert_array_equal(it.loss, plain.loss)
        if tracks:
            np.testing.assert_array_equal(it.tracking, plain.tracking)


@pytest.mark.parametrize("which", [0, 1], ids=["loss", "gradient"])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_an_answer_that_is_not_finite_is_found(which, value):
    with pytest.raises(Diverged, match="after iteration 0: node 1, seed 9"):
        measured(state_of(NODES, SEEDS, DIM), problem=Spoiled(which, value))


def test_a_metric_that_is_not_finite_though_all_values_are():
    with pytest.raises(Diverged, match="after iteration 0: a metric of seed 9"):
        measured(state_of(NODES, SEEDS, DIM), problem=Spoiled(1, 1e160))


def test_large_values_are_finite():
    """Large values are suspect, so that all ranks look closely."""
    state = state_of(NODES, SEEDS, DIM)
    state.m[:] = 1e308
    assert measured(state) is not None
    assert measured(state, problem=Spoiled(0, 1e308)).loss[2] == pytest.approx(2.5e307)


@pytest.mark.parametrize("accuracy", [(), (np.linspace(0, 1, SEEDS),)], ids=len)
@pytest.mark.parametrize("tracks", [True, False])
@pytest.mark.usefixtures("kernels_built")
def test_the_same_report_without_the_kernels(by_numpy, tracks, accuracy):
    state, xbar = state_of(SEEDS, DIM), np.ones((SEEDS, DIM))

    def report(state=state, xbar=xbar):
        loss, gradient = np.arange(SEEDS) / 7, state.m + xbar
        vectors = (gradient, state.s, state.g) if tracks else (gradient,)
        return _local_metrics(2**40 + 1, state, xbar, (loss, *accuracy), vectors)

    expected = by_numpy(report)
    assert not expected[:, SUSPECT].any()
    np.testing.assert_allclose(report()[:, CONSENSUS], expected[:, CONSENSUS], rtol=1e-14)
    np.testing.assert_array_equal(report()[:, CONSENSUS + 1 :], expected[:, CONSENSUS + 1 :])
    for field in State._fields:
        bad = state._replace(**{field: getattr(state, field).copy()})
        getattr(bad, field)[1, 2] = np.inf
        assert report(bad)[:, SUSPECT].all()
        assert by_numpy(lambda bad=bad: report(bad))[:, SUSPECT].all()


@pytest.mark.usefixtures("kernels_built")
def test_what_the_kernel_does_not_know_is_left_to_numpy():
    x, loss = np.ones((SEEDS, DIM)), np.ones(SEEDS)
    known = (x, x, 1, (loss,), (x,), (x,))
    assert kernels.C.local_metrics(*known) is not None
    spoiled = loss.copy()
    spoiled[1] = np.nan
    assert kernels.C.local_metrics(x, x, 1, (loss, spoiled), (x,), ())[:, SUSPECT].all()
    odd = [x[:, :1], x[:1], x.astype(np.float32), x.astype(np.int64), x[:, ::-1], x[0], 1.0, None]
    odd += [np.asfortranarray(x), np.ones((SEEDS + 1, DIM)), np.ones((SEEDS, DIM, 1)), x.tolist()]
    for place in (0, 1, 4, 5):
        for other in odd:
            given = list(known)
            given[place] = other if place < 2 else (x, other)
            assert kernels.C.local_metrics(*given) is None
    for other in (x, loss[:1], np.ones(SEEDS + 1), loss.astype(np.float32), np.ones(6)[::2], 1.0):
        assert kernels.C.local_metrics(x, x, 1, (loss, other), (x,), ()) is None
    assert kernels.C.local_metrics(x, x, np.ones(1), (loss,), (x,), ()) is None


@pytest.mark.usefixtures("kernels_built")
def test_a_report_in_single_precision(by_numpy):
    state, xbar = state_of(SEEDS, DIM, dtype=np.float32), np.ones((SEEDS, DIM))

    def report():
        return _local_metrics(0, state, xbar, (np.ones(SEEDS),), (xbar, state.s, state.g))

    np.testing.assert_array_equal(report(), by_numpy(report))
    assert report().dtype == np.float64
