"""Measuring: what a rank reports, and what is not finite."""

from typing import NamedTuple

import numpy as np
import pytest

from mpi_gt.errors import Diverged
from mpi_gt.metrics import CONSENSUS, LOSS, SUSPECT, _report, measure
from mpi_gt.stacked import StackedNode

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


def state_of(*shape, dtype=np.float64):
    random = np.random.default_rng(0)
    return State(*(random.standard_normal(shape).astype(dtype) for _ in State._fields))


def measured(state, tracks=True):
    node = StackedNode(np.eye(NODES), np.zeros(NODES, np.int64))
    with np.errstate(all="ignore"):
        return measure(node, Quadratic(), state, tracks, (7, 8, 9))


def test_what_is_measured():
    state = state_of(NODES, SEEDS, DIM)
    it, xbar = measured(state), state.x.mean(axis=0)
    np.testing.assert_allclose(it.loss, (xbar**2).sum(axis=-1) / 2)
    np.testing.assert_allclose(it.grad_norm2, (xbar**2).sum(axis=-1))
    np.testing.assert_allclose(it.consensus, ((state.x - xbar) ** 2).sum(axis=-1).mean(axis=0))
    error = state.s.mean(axis=0) - state.g.mean(axis=0)
    np.testing.assert_allclose(it.tracking, np.linalg.norm(error, axis=-1))
    assert it.lost.all()
    assert measured(state, tracks=False).tracking is None


@pytest.mark.parametrize("tracks", [True, False])
@pytest.mark.parametrize("field", State._fields)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_found_wherever_it_is(field, value, tracks):
    state = state_of(NODES, SEEDS, DIM)
    getattr(state, field)[2, 1, 3] = value
    with pytest.raises(Diverged, match="after iteration 0: node 2, seed 8"):
        measured(state, tracks)


def test_large_values_are_finite():
    """Their sum is not, which is what is looked at first."""
    state = state_of(NODES, SEEDS, DIM)
    state.m[:] = 1e308
    assert measured(state) is not None


@pytest.mark.parametrize("accuracy", [(), (np.linspace(0, 1, SEEDS),)], ids=len)
@pytest.mark.parametrize("tracks", [True, False])
@pytest.mark.usefixtures("kernels_built")
def test_the_same_report_without_the_kernels(by_numpy, tracks, accuracy):
    state, xbar = state_of(SEEDS, DIM), np.ones((SEEDS, DIM))

    def report(state=state, xbar=xbar):
        loss, gradient = np.arange(SEEDS) / 7, state.m + xbar
        vectors = (gradient, state.s, state.g) if tracks else (gradient,)
        return _report(2**40 + 1, state, xbar, (loss, *accuracy), vectors)

    expected = by_numpy(report)
    assert not expected[:, SUSPECT].any()
    np.testing.assert_allclose(report()[:, CONSENSUS], expected[:, CONSENSUS], rtol=1e-15)
    np.testing.assert_array_equal(report()[:, CONSENSUS + 1 :], expected[:, CONSENSUS + 1 :])
    for field in State._fields:
        bad = state._replace(**{field: getattr(state, field).copy()})
        getattr(bad, field)[1, 2] = np.inf
        assert report(bad)[:, SUSPECT].all()
    for other in (
        state._replace(m=np.asfortranarray(state.m)),
        State(*(z.astype(np.float32) for z in state)),
    ):
        twin = by_numpy(lambda other=other: report(other))
        np.testing.assert_array_equal(report(other), twin)


@pytest.mark.usefixtures("kernels_built")
def test_a_report_of_a_state_with_other_arrays():
    """An algorithm of the user's may keep what it likes."""

    class Odd(NamedTuple):
        x: np.ndarray
        count: np.ndarray

    x = np.ones((SEEDS, DIM))
    for count in (np.ones((SEEDS, 1)), np.ones((SEEDS, DIM), np.int64), x[:, ::-1]):
        report = _report(0, Odd(x, count), x, (np.ones(SEEDS),), (x,))
        assert report.shape == (SEEDS, LOSS + 1 + DIM)
        assert not report[:, SUSPECT].any()
