"""The statements of the theory on random small graphs, problems and parameters."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import skip_or_fail

import mpi_gt
from mpi_gt.algorithms.base import clip
from mpi_gt.config import RunConfig
from mpi_gt.engine.build import build
from mpi_gt.graphs import WEIGHTS, build_network, rho
from mpi_gt.theory import Corrected
from mpi_gt.theory.constants import audited_algorithm, combine, setting_of

# the same examples each time, so that a failure can be repeated
fixed = settings(
    derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
RULES = ("metropolis", "lazy-metropolis", "max-degree", "laplacian")


@st.composite
def graphs(draw):
    family = draw(st.sampled_from(("er", "ring", "path", "star", "complete", "tree")))
    return f"er:p=0.5,seed={draw(st.integers(0, 99))}" if family == "er" else family


@st.composite
def methods(draw):
    beta1, beta2 = draw(st.floats(0, 0.95)), draw(st.floats(0.1, 0.9999))
    vmin, vmax = draw(st.floats(0.2, 1)), draw(st.floats(1, 5))
    return f"gt-adaptive:beta1={beta1:.3f},beta2={beta2:.4f},vmin={vmin:.3f},vmax={vmax:.3f}"


@st.composite
def cases(draw):
    """Draw the options of a run, without its alpha."""
    threshold, spread = draw(st.floats(0.3, 4)), draw(st.sampled_from((0, 0.5, 5, 50)))
    kind = f"threshold={threshold:.3f},spread={spread},noise={draw(st.sampled_from((0, 0.2)))}"
    return {
        "problem": f"huber:dim={draw(st.integers(1, 3))},{kind}",
        "algorithm": draw(methods()),
        "graph": draw(graphs()),
        "weights": draw(st.sampled_from(RULES)),
        "n": draw(st.integers(2, 6)),
        "seed": draw(st.integers(0, 10**6)),
        "seeds": draw(st.integers(1, 3)),
        "iterations": draw(st.integers(1, 60)),
        "stacked": True,
        "audit": True,
    }


def constant_gradients(random, folder):
    """Draw a run whose nodes have different, nearly constant gradients: hard on Lemmas 3 and 6."""
    n = int(random.choice((2, 4)))
    slopes, signs = random.uniform(0.5, 2, n), np.ones(n)
    if random.random() < 0.5:  # the gradients cancel out, and only s - s~ is left
        slopes, signs = np.full(n, slopes[0]), (-1.0) ** np.arange(n)
    # the residual stays past the threshold, so the gradient is Phi · threshold = the slope
    phi, theta = 1e-4 * slopes, 2e4 * signs
    np.savez(folder / "data.npz", Phi=phi[:, None, None], theta=theta[:, None])
    beta1, beta2 = random.uniform(0, 0.95), random.choice((0.999, 0.9999))
    vmin, vmax = random.uniform(0.2, 1), random.uniform(1, 5)
    return {
        "problem": f"huber:noise=0,threshold=1e4,data={folder / 'data.npz'}",
        "algorithm": f"gt-adaptive:beta1={beta1:.3f},beta2={beta2},vmin={vmin:.3f},vmax={vmax:.3f}",
        "graph": str(random.choice(("complete", "path"))),
        "weights": str(random.choice(("metropolis", "lazy-metropolis"))),
        "n": n,
        "seed": 0,
        "iterations": int(random.integers(150, 251)),
        "stacked": True,
        "audit": True,
    }


def run(case, alpha, apart):
    """Audit the case, with nodes that start `apart` from one another."""
    with tempfile.TemporaryDirectory() as folder:
        dim = int(case["problem"].partition("dim=")[2][:1] or 1)
        x1 = apart * np.random.default_rng(case["seed"]).standard_normal((case["n"], dim))
        np.save(Path(folder, "x1.npy"), x1)
        algorithm = f"{case['algorithm']},lr={alpha!r}"
        options = {**case, "algorithm": algorithm, "x1": str(Path(folder, "x1.npy"))}
        return mpi_gt.run(**options, log_every=10**6).facts["audit"]


def largest_alpha(case):
    """Return the largest alpha that the corrected Lemma 6 allows."""
    config = RunConfig.of({**case, "quiet": True})
    experiment = build(config, None)
    graph = experiment.facts["graph"]
    known = combine(config, experiment.constants)
    setting = setting_of(audited_algorithm(config), known, graph["nodes"], graph["rho_A"])
    return min(one.high for one in Corrected(setting).lemma6_conditions())


def require(told, lemmas):
    for lemma in lemmas:
        one = told["lemmas"][lemma]["corrected"]
        assert one["applies"], lemma
        assert one["verdict"] == "holds", (lemma, one)
    assert told["lemmas"]["2"]["paper"]["verdict"] == "holds"
    for name, identity in told["identities"].items():
        assert identity["verdict"] == "holds", (name, identity)


@settings(fixed, max_examples=100)
@given(cases(), st.floats(0.05, 1), st.sampled_from((0, 0.1, 3)))
def test_corrected_lemmas_at_admissible_alphas(case, share, apart):
    require(run(case, share * largest_alpha(case), apart), "123456")


def test_corrected_lemmas_where_the_printed_ones_fail(tmp_path):
    """Not drawn by Hypothesis: its examples depend on the modules that other tests import."""
    broken, random = Counter(), np.random.default_rng(0)
    for _ in range(20):
        case = constant_gradients(random, tmp_path)
        told = run(case, random.uniform(0.05, 0.3) * largest_alpha(case), apart=0)
        require(told, "123456")
        for lemma, forms in told["lemmas"].items():
            broken[lemma] += forms["paper"]["verdict"] == "violated"
    assert broken["3"] > 0
    assert broken["6"] > 0


@settings(fixed, max_examples=50)
@given(cases(), st.floats(-4, 0), st.sampled_from((0, 0.1, 3)))
def test_corrected_lemmas_without_conditions(case, exponent, apart):
    """Lemmas 1 to 5 hold at any alpha."""
    require(run(case, 10**exponent, apart), "12345")


numbers = st.floats(-1e6, 1e6)


@settings(fixed, max_examples=200)
@given(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8),
    st.floats(1e-8, 1),
    st.floats(1, 100),
)
def test_clip_is_non_expansive(pairs, lowest, highest):
    a, b = np.array(pairs).T
    clipped = clip(a, lowest, highest), clip(b, lowest, highest)
    assert (np.abs(clipped[0] - clipped[1]) <= np.abs(a - b)).all()
    # so mixing never moves nodes away from their mean
    after, before = np.std(clipped, axis=0), np.std([a, b], axis=0)
    assert (after <= before * (1 + 1e-12)).all()
    assert ((clipped[0] >= lowest) & (clipped[0] <= highest)).all()


@pytest.mark.parametrize("rule", list(WEIGHTS))
def test_every_rule_contracts(rule):
    if rule == "fdla":
        try:
            import cvxpy  # noqa: F401
        except ImportError:
            skip_or_fail("cvxpy is not installed: pip install 'mpi-gt[fdla]'")

    @settings(fixed, max_examples=20 if rule == "fdla" else 100)
    @given(graphs(), st.integers(2, 12))
    def contracts(graph, n):
        matrix = build_network(graph, rule, n).matrix
        assert rho(matrix) < 1
        away = matrix - 1 / n
        assert np.linalg.norm(away, ord=2) < 1

    contracts()


@settings(fixed, max_examples=60)
@given(cases(), st.sampled_from(("gt", "gt-adaptive", "gtadam")), st.floats(-4, -1))
def test_trackers_have_the_mean_of_the_gradients(case, name, exponent):
    options = {**case, "algorithm": f"{name}:lr={10**exponent!r}", "audit": False}
    rows = mpi_gt.run(**options, log_every=1).metrics
    assert max(row["tracking"] for row in rows) <= 1e-12
