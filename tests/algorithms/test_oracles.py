"""Methods that agree where they must, and what is known of each on a quadratic.

tests/ranks/test_methods.py has the pairs on real ranks.
"""

import numpy as np
import pytest
from algorithms.oracles import PAIRS, VARIANTS, Q
from algorithms.stacking import gap_of, stacked, steps

import mpi_gt
from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.config import _make_algorithm

QUADRATIC = {"spread": 0.5, "noise": 0.0, "threshold": 1000.0}


def run(algorithm, problem, **options):
    options = {"graph": "ring", "iterations": 300, "seeds": 2, "quiet": True, **options}
    return mpi_gt.run(stacked=True, n=8, algorithm=algorithm, problem=problem, **options).x


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.one} and {pair.other}")
def test_two_methods_agree(pair):
    one = run(pair.one, pair.problem)
    other = run(pair.other, pair.problem_of_other or pair.problem)
    if pair.within == 0:
        np.testing.assert_array_equal(one, other)
    else:
        assert np.abs(one - other).max() <= pair.within


def test_exact_diffusion_as_adapt_correct_combine():
    """The usual form: p+ = x - a g, x+ = (I + A)/2 (p+ + x - p)."""
    node, problem, x = stacked(8, "ring", **QUADRATIC)
    states = list(steps(ALGORITHMS["exact-diffusion"](lr=0.3), node, problem, x, 60))
    p = x
    for t, state in enumerate(states, 1):
        np.testing.assert_allclose(state.x, x, atol=1e-12)
        p_new = x - 0.3 * problem.gradient(t, x)
        z = p_new + x - p
        x, p = (z + node._times(z)) / 2, p_new


def test_local_exact_diffusion_by_hand():
    node, problem, x = stacked(4, "ring", **QUADRATIC)
    states = list(steps(ALGORITHMS["exact-diffusion"](lr=0.1, every=3), node, problem, x, 9))
    y = np.zeros_like(x)
    for t, state in enumerate(states, 1):
        np.testing.assert_allclose(state.x, x, atol=1e-13)
        np.testing.assert_allclose(state.y, y, atol=1e-13)
        p = x - 0.1 * problem.gradient(t, x) - y / 3
        x = p if t % 3 else (p + node._times(p)) / 2
        y = y if t % 3 else y + p - x


def test_k_gt_by_hand():
    node, problem, x = stacked(4, "ring", **QUADRATIC)
    states = list(steps(ALGORITHMS["k-gt"](lr=0.1, every=2, eta=0.7), node, problem, x, 8))
    c, b = np.zeros_like(x), x
    for t, state in enumerate(states, 1):
        np.testing.assert_allclose(state.x, x, atol=1e-13)
        y = x - 0.1 * (problem.gradient(t, x) + c)
        if t % 2 == 0:
            z = (b - y) / 0.2
            c, y = c - z + node._times(z), node._times(b - 0.7 * (b - y))
            b = y
        x = y


def test_extra_by_its_textbook_form():
    """x_{k+2} = (I + W) x_{k+1} - W~ x_k - a (g_{k+1} - g_k), after x_2 = W x_1 - a g_1."""
    node, problem, x = stacked(6, "ring", **QUADRATIC)
    states = list(steps(ALGORITHMS["extra"](lr=0.2), node, problem, x, 40))
    before, now = x, node._times(x) - 0.2 * problem.gradient(1, x)
    for t, state in enumerate(states[1:], 2):
        np.testing.assert_allclose(state.x, now, atol=1e-13)
        change = problem.gradient(t, now) - problem.gradient(t - 1, before)
        new = now + node._times(now) - (before + node._times(before)) / 2 - 0.2 * change
        before, now = now, new


@pytest.mark.parametrize(("name", "field"), [("k-gt", "c"), ("exact-diffusion", "y")])
def test_corrections_keep_the_mean_zero(name, field):
    node, problem, x = stacked(8, spread=0.5)
    for state in steps(ALGORITHMS[name](every=3), node, problem, x, 50):
        np.testing.assert_allclose(getattr(state, field).mean(axis=0), 0, atol=1e-13)


@pytest.mark.parametrize("spec", VARIANTS)
def test_trackers_of_all_variants_keep_the_mean(spec):
    node, problem, x = stacked(8, spread=0.5)
    _, algorithm = _make_algorithm(spec)
    if algorithm.tracks:
        for state in steps(algorithm, node, problem, x, 50):
            np.testing.assert_allclose(state.s.mean(axis=0), state.g.mean(axis=0), atol=1e-13)


@pytest.mark.parametrize(
    ("name", "lr", "lowest", "highest"),
    [
        ("exact-diffusion", 0.5, 0, 1e-18),
        ("extra", 0.5, 0, 1e-18),
        ("dsgd", 0.2, 3.5e-2, 3.6e-2),
        ("qg-dsgdm", 0.2, 2.5e-2, 2.6e-2),
    ],
)
def test_gap_on_the_quadratic(name, lr, lowest, highest):
    node, problem, x = stacked(8, "ring", seeds=(0,), **QUADRATIC)
    count = 200 if highest < 1e-3 else 1000
    *_, last = steps(ALGORITHMS[name](lr=lr), node, problem, x, count)
    assert lowest <= gap_of(problem, last.x) < highest


def test_local_steps_are_exact_where_dsgd_s_are_not():
    gaps = {}
    for spec in (
        "exact-diffusion:every=5,lr=0.1",
        "k-gt:every=5,lr=0.02",
        "dsgd:order=atc,every=5,lr=0.1",
    ):
        result = mpi_gt.run(
            stacked=True, n=8, graph="ring", problem=Q, algorithm=spec, iterations=6000, quiet=True
        )
        gaps[spec.partition(":")[0]] = result.metrics[-1]["gap"]
    assert gaps["exact-diffusion"] < 1e-20
    assert gaps["k-gt"] < 1e-12
    assert gaps["dsgd"] > 1e-3


@pytest.mark.parametrize("name", ["gt-sarah", "gt-svrg", "gt-adaptive-vr"])
def test_variance_reduction_removes_the_floor(name):
    """The noise does not depend on x here: exact gradients once in a while leave none of it."""
    lr = {"gt-adaptive-vr": 0.02}.get(name, 0.2)
    gaps = [
        mpi_gt.run(
            stacked=True, n=8, problem="huber:spread=0.5,threshold=1000", quiet=True,
            iterations=2000, algorithm=f"{each}:lr={lr}",
        ).metrics[-1]["gap"]
        for each in (name, "gt-adaptive" if name == "gt-adaptive-vr" else "gt")
    ]  # fmt: skip
    assert gaps[0] < 1e-5 * gaps[1]
