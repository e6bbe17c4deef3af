import itertools

import numpy as np
import pytest

from mpi_gt.errors import UserError
from mpi_gt.problems import Huber, Place
from mpi_gt.problems.truncated_normal import TruncatedNormal

SETTINGS = [
    {},
    {"threshold": 0.2},
    {"threshold": 0.05},  # below the truncation: no entry is far from the kink
    {"noise": 0.0, "threshold": 0.3},
    {"reduce": "mean", "spread": 0.5},
    {"noise": 0.1, "truncate": 0.5, "threshold": 0.4},  # sampled through scipy
    {"phi": "diagonal", "threshold": 0.3},
    {"dim": 1},
]


def make(node=1, nodes=4, seeds=(3, 4), **options):
    return Huber(Place(node, nodes, seeds), **{"dim": 4, **options})


def points(problem, seeds=2):
    """Return points near the minimiser and far from it, so that all branches are taken."""
    random = np.random.default_rng(7)
    return [scale * random.standard_normal((seeds, problem.dim)) for scale in (0.1, 1, 5)]


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_exact_gradient_against_differences_of_the_loss(options):
    problem = make(**options)
    step = 1e-6
    for x in points(problem):
        _, gradient = problem.evaluate(x)
        for j in range(problem.dim):
            ahead, behind = x.copy(), x.copy()
            ahead[:, j] += step
            behind[:, j] -= step
            slope = (problem.evaluate(ahead)[0] - problem.evaluate(behind)[0]) / (2 * step)
            np.testing.assert_allclose(gradient[:, j], slope, atol=1e-8)


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_closed_form_against_monte_carlo(options):
    """The exact gradient is the mean of the stochastic one, within five standard errors."""
    problem = make(**options)
    draws = 20_000
    for x in points(problem)[:2]:
        sample = np.stack([problem.gradient(t, x) for t in range(1, draws + 1)])
        _, exact = problem.evaluate(x)
        error = np.abs(sample.mean(axis=0) - exact)
        assert (error <= 5 * sample.std(axis=0) / np.sqrt(draws) + 1e-12).all()


@pytest.mark.parametrize("options", [s for s in SETTINGS if s.get("noise") != 0.0], ids=str)
def test_expected_loss_against_quadrature(options):
    """Return E H(r + noise), by Gauss-Legendre on each smooth piece of the integrand."""
    problem = make(**options)
    distribution, k = problem._distribution, problem.threshold
    nodes, weights = np.polynomial.legendre.leggauss(60)
    for r in np.linspace(-2 * k - 1, 2 * k + 1, 41):
        kinks = [u for u in (-k - r, k - r) if abs(u) < distribution.c]
        ends = sorted([-distribution.c, *kinks, distribution.c])
        loss = slope = 0.0
        for a, b in itertools.pairwise(ends):
            u = (a + b) / 2 + (b - a) / 2 * nodes
            density = np.exp(-0.5 * (u / distribution.sd) ** 2) / np.sqrt(2 * np.pi)
            w = (b - a) / 2 * weights * density / distribution.sd / distribution.mass
            z = r + u
            value = np.where(np.abs(z) <= k, 0.5 * z * z, k * (np.abs(z) - 0.5 * k))
            loss += (w * value).sum()
            slope += (w * np.clip(z, -k, k)).sum()
        exact_loss, exact_slope = problem._expected_huber(np.array([r]))
        assert exact_loss[0] == pytest.approx(loss, abs=2e-14)
        assert exact_slope[0] == pytest.approx(slope, abs=2e-14)


def test_smallest_loss_is_half_d_tau_squared():
    problem = make(dim=10, nodes=1, node=0, seeds=(0,))
    x_star = Place(0, 1, (0,)).random(0, Huber.X_STAR, shared=True).uniform(-1, 1, 10)
    loss, gradient = problem.evaluate(x_star[np.newaxis])
    assert loss[0] == pytest.approx(0.0161178, abs=1e-7)
    np.testing.assert_allclose(gradient, 0, atol=1e-15)


def test_nodes_share_x_star_and_nothing_else():
    for spread, common in ((0, True), (0.5, False)):
        minimisers = []
        for node in range(3):
            problem = make(node=node, seeds=(0,), noise=0.0, spread=spread)
            minimisers.append(np.linalg.solve(problem._phi[0], problem._theta[0]))
        assert np.allclose(minimisers[0], minimisers[1]) == common
    assert not np.allclose(make(node=0)._phi, make(node=1)._phi)


def test_spectrum_of_phi():
    for node in range(5):
        spectrum = np.linalg.eigvalsh(make(node=node, dim=10)._phi)
        assert spectrum.min() >= 0.05 - 1e-12
        assert spectrum.max() <= 1 + 1e-12


def test_draws_depend_on_nothing_that_happened_before():
    """Seed 4 draws the same numbers alone and beside others, in any order of t."""
    together, alone = make(seeds=(3, 4, 5)), make(seeds=(4,))
    x = np.random.default_rng(0).standard_normal((3, 4))
    for t in (1, 700, 256, 257, 2, 1_000_000):
        np.testing.assert_array_equal(together.gradient(t, x)[1], alone.gradient(t, x[1:2])[0])


def test_gradient_leaves_its_input_alone():
    problem = make()
    x = np.ones((2, 4))
    x.flags.writeable = False
    problem.gradient(1, x)
    problem.evaluate(x)


def test_float32_stays_float32():
    problem = Huber(Place(0, 1, (0,), np.dtype(np.float32)))
    assert problem.gradient(1, np.zeros((1, 10), np.float32)).dtype == np.float32


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1, 1.5, 3, 10])
def test_truncated_normal(ratio):
    from scipy.special import ndtr, ndtri

    distribution = TruncatedNormal(0.2, 0.2 * ratio)
    uniform = np.concatenate([[0.0, 0.5], np.random.default_rng(0).random(10_000)])
    sample = distribution.sample(uniform)
    exact = 0.2 * ndtri(ndtr(-ratio) + uniform * (ndtr(ratio) - ndtr(-ratio)))
    np.testing.assert_allclose(sample, exact, atol=1e-15 if ratio < 3 else 1e-12)
    assert np.abs(sample).max() <= distribution.c
    zeroth, first, second = distribution.moments(*np.array([[-distribution.c], [distribution.c]]))
    assert zeroth[0] == pytest.approx(1)
    assert first[0] == pytest.approx(0, abs=1e-15)
    assert second[0] == pytest.approx(distribution.variance)


def test_the_paper_s_noise():
    assert TruncatedNormal(0.2, 0.1).variance == pytest.approx(0.0032236, abs=1e-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, "dim"),
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"noise": -1.0}, "noise"),
        ({"noise": float("inf")}, "noise"),
        ({"truncate": 0.0}, "truncate"),
        ({"noise": 1.0, "truncate": 1e-4}, "truncate"),
        ({"spread": -0.1}, "spread"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def save(tmp_path, **arrays):
    file = tmp_path / "data.npz"
    np.savez(file, **arrays)
    return str(file)


RANDOM = np.random.default_rng(1)
PHI = RANDOM.standard_normal((3, 2, 2))
X_STAR = RANDOM.standard_normal((3, 2))


def test_data_file(tmp_path):
    theta = np.einsum("nij,nj->ni", PHI, X_STAR)
    for arrays in ({"Phi": PHI, "x_star": X_STAR}, {"Phi": PHI, "theta": theta}):
        parts = Huber.parts(3, data=save(tmp_path, **arrays))
        for node, part in enumerate(parts):
            np.testing.assert_allclose(part.theta, theta[node])
            place = Place(node, 3, (0, 1), part=part)
            problem = Huber(place, data="data.npz", noise=0.0, threshold=100.0)
            x = np.ones((2, 2))
            expected = -PHI[node].T @ (theta[node] - PHI[node] @ x[0])
            np.testing.assert_allclose(problem.gradient(1, x), [expected] * 2)


def test_common_x_star(tmp_path):
    parts = Huber.parts(3, data=save(tmp_path, Phi=PHI, x_star=X_STAR[0]))
    np.testing.assert_allclose(parts[2].theta, PHI[2] @ X_STAR[0])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Phi": PHI}, "either x_star or theta"),
        ({"x_star": X_STAR}, "must hold Phi"),
        ({"Phi": PHI, "x_star": X_STAR, "theta": X_STAR}, "either"),
        ({"Phi": PHI[:2], "theta": X_STAR[:2]}, "2 nodes, but there are 3"),
        ({"Phi": PHI[:, :1], "theta": X_STAR}, "shape"),
        ({"Phi": PHI[0], "theta": X_STAR}, "shape"),
        ({"Phi": PHI, "theta": X_STAR[0]}, "theta must have shape"),
        ({"Phi": PHI, "x_star": X_STAR[:, :1]}, "x_star must have shape"),
        ({"Phi": PHI * np.inf, "theta": X_STAR}, "not finite"),
        ({"Phi": PHI, "theta": X_STAR * np.nan}, r"theta\[0, 0\] is nan"),
        ({"Phi": PHI.astype(str), "theta": X_STAR}, "real numbers"),
        ({"Phi": PHI * 1j, "theta": X_STAR}, "real numbers"),
    ],
)
def test_bad_data_file(tmp_path, arrays, message):
    with pytest.raises(UserError, match=message):
        Huber.parts(3, data=save(tmp_path, **arrays))


def test_no_data_file(tmp_path):
    text = tmp_path / "text.npz"
    text.write_text("nothing of the kind")
    single = tmp_path / "single.npy"
    np.save(single, PHI)
    for path in (tmp_path / "absent.npz", text, single, tmp_path):
        with pytest.raises(UserError, match="cannot read"):
            Huber.parts(3, data=str(path))
