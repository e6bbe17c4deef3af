"""Methods with compressed messages: against the plain methods, and what compression must keep."""

import itertools

import numpy as np
import pytest
from algorithms.stacking import gap_of, stacked, steps

from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.algorithms.compressed.beer import BEER
from mpi_gt.algorithms.compressed.choco_sgd import ChocoSGD
from mpi_gt.algorithms.compressed.gt_adaptive_compressed import GTAdaptiveCompressed
from mpi_gt.algorithms.compressed.lead import LEAD
from mpi_gt.errors import UserError
from mpi_gt.graphs import build_network

QUADRATIC = {"noise": 0.0, "spread": 0.5, "threshold": 1000.0}
NAMES = ("gt-adaptive-compressed", "beer", "choco-sgd", "lead")
COMPRESSORS = (
    {"compress": "none"},
    {"compress": "bfloat16"},
    {"compress": "float16"},
    {"compress": "float32"},
    {"compress": "qsgd", "bits": 8},
    {"compress": "qsgd"},
    {"compress": "qsgd", "bits": 2},
    {"compress": "sign"},
    {"compress": "top"},
)


def run(name, count=100, graph="ring", problem=None, **options):
    node, made, x = stacked(8, graph, seeds=(0,), **(problem or QUADRATIC))
    return made, list(steps(ALGORITHMS[name](**options), node, made, x, count))


@pytest.mark.parametrize(
    ("name", "options", "plain", "plain_options"),
    [
        ("gt-adaptive-compressed", {"vmin": 1e-8}, "gt-adaptive", {}),
        ("gt-adaptive-compressed", {"beta": 0.0, "period": 7}, "gt-adaptive-vr", {"period": 7}),
        ("beer", {"lr": 0.1}, "gt", {"lr": 0.1}),
        ("choco-sgd", {"lr": 0.1}, "dsgd", {"lr": 0.1, "order": "atc"}),
        ("lead", {"lr": 0.1}, "exact-diffusion", {"lr": 0.1}),
    ],
)
@pytest.mark.parametrize("problem", [QUADRATIC, {"noise": 0.2, "spread": 0.5}])
def test_without_compression_it_is_the_plain_method(name, options, plain, plain_options, problem):
    count = 200 if name == "lead" else 300  # its d adds up the rounding errors of w
    _, ours = run(name, count, problem=problem, compress="none", gamma=1.0, **options)
    _, theirs = run(plain, count, problem=problem, **plain_options)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
@pytest.mark.parametrize("name", ["gt-adaptive-compressed", "beer"])
def test_the_tracker_keeps_the_mean_under_every_compressor(name, compressor):
    for extra in ({}, {"lam": 0.3}) if name == "beer" else ({}, {"beta": 0.0, "period": 9}):
        _, states = run(name, 60, problem={"noise": 0.2, "spread": 0.5}, **compressor, **extra)
        for state in states:
            np.testing.assert_allclose(state.s.mean(axis=0), state.g.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
def test_compression_does_not_move_the_mean(compressor):
    """Gossip moves nodes, not their mean: that moves by the mean direction alone."""
    directions = {
        "gt-adaptive-compressed": lambda old, new: new.m / np.sqrt(new.v),
        "beer": lambda old, new: old.s,
        "choco-sgd": lambda old, new: old.g,
    }
    for name, direction in directions.items():
        _, states = run(name, 50, lr=0.05, **compressor)
        for old, new in itertools.pairwise(states):
            moved = old.x.mean(axis=0) - 0.05 * direction(old, new).mean(axis=0)
            np.testing.assert_allclose(new.x.mean(axis=0), moved, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_weighted_sums_of_surrogates_stay_weighted_sums(name):
    matrix = build_network("ring", None, 8).matrix
    _, states = run(name, 2000, problem={"noise": 0.2, "spread": 0.5}, lr=0.02)
    for surrogate, weighted in (("h", "hw"), ("e", "ew")):
        if hasattr(states[-1], surrogate):
            for state in states[::100]:
                expected = np.tensordot(matrix, getattr(state, surrogate), axes=1)
                np.testing.assert_allclose(getattr(state, weighted), expected, atol=1e-10)


@pytest.mark.parametrize("compressor", COMPRESSORS[:-1], ids=str)
def test_beer_is_exact(compressor):
    slow = compressor["compress"] == "sign"
    problem, states = run("beer", 3000 if slow else 1200, lr=0.1 if slow else 0.3, **compressor)
    # float16 loses differences below 6e-8
    assert gap_of(problem, states[-1].x) < (1e-13 if compressor["compress"] == "float16" else 1e-22)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_lead_is_exact_with_quantised_messages(bits):
    problem, states = run("lead", 1200, lr=0.3, bits=bits)
    assert gap_of(problem, states[-1].x) < 1e-21


def test_gt_adaptive_compressed_is_exact_with_one_bit_per_entry():
    problem, states = run("gt-adaptive-compressed", 4000, vmin=1e-2, compress="sign")
    assert gap_of(problem, states[-1].x) < 1e-20


def test_choco_sgd_ends_at_the_floor_of_dsgd():
    gaps = {}
    for gamma in (1.0, 0.5):
        problem, states = run("choco-sgd", 1500, lr=0.02, compress="none", gamma=gamma)
        gaps[gamma] = gap_of(problem, states[-1].x)
    assert gaps[0.5] / gaps[1.0] == pytest.approx(4, rel=0.2)  # the floor is divided by gamma²


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (LEAD, {"compress": "sign"}, "lead diverges with compress=sign"),
        (LEAD, {"compress": "top"}, "lead diverges with compress=top"),
        (LEAD, {"alpha": 0.0}, "alpha must be in"),
        (BEER, {"lam": 0.0}, "lam must be in"),
        (BEER, {"gamma": -0.1}, "gamma must be in"),
        (BEER, {"gamma": 1.5}, "gamma must be in"),
        (BEER, {"gamma": float("nan")}, "gamma must be in"),
        (ChocoSGD, {"bits": 3}, "bits must be 2, 4 or 8, not 3"),
        (ChocoSGD, {"compress": "sign", "bits": 16}, "bits must be 2, 4 or 8, not 16"),
        (ChocoSGD, {"block": 0}, "block must be in"),
        (GTAdaptiveCompressed, {"k": 1.5}, "k must be a share"),
        (GTAdaptiveCompressed, {"compress": "zip"}, "unknown compressor 'zip'"),
        (GTAdaptiveCompressed, {"beta": 2.0}, "beta must be in"),
    ],
)
def test_bad_options(kind, options, message):
    with pytest.raises((ValueError, UserError), match=message):
        kind(**options)


def test_gamma_is_the_delta_of_the_compressor():
    x = np.zeros((1, 50))
    for compressor in COMPRESSORS:
        method = BEER(**compressor)
        assert method.fitted(x, "beer").gamma == method.compressor.delta(50) == method.gossip(x)
    assert BEER(gamma=0.25).fitted(x, "beer").gamma == 0.25
    with pytest.raises(UserError, match="beer: k must be at most all 50 entries, not 51"):
        BEER(compress="top", k=51).fitted(x, "beer")
    assert LEAD().compressor.codec(50)[-1] == 1.0
    assert BEER().compressor.codec(50)[-1] == 1 + BEER().compressor.omega(50)
