"""Gradients and losses of the kernels against numpy: the same but for rounding."""

import numpy as np
import pytest

from mpi_gt.problems import Place
from mpi_gt.problems.cross_entropy import slopes
from mpi_gt.problems.huber import Huber
from mpi_gt.problems.softmax import Softmax

pytestmark = pytest.mark.usefixtures("kernels_built")


def test_a_gradient_of_the_user_s_own_is_called():
    class Mine(Huber):
        def gradient(self, t, x):
            return 2 * super().gradient(t, x)

    x, place = np.ones((1, 10)), Place(0, 1, (0,))
    mine, plain = Mine(place), Huber(place)
    assert plain._kernel is not None
    assert mine._kernel is None
    np.testing.assert_array_equal(mine.gradient(1, x), 2 * plain._kernel(1, x))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dim": 1},
        {"dim": 64, "reduce": "mean"},
        {"dim": 65},
        {"noise": 0.0},
        {"phi": "diagonal"},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_huber_gradient_but_for_rounding(by_numpy, options, dtype):
    place = Place(1, 4, (3, 4, 5), np.dtype(dtype))
    problem = Huber(place, **options)
    plain = by_numpy(lambda: Huber(place, **options))
    x = np.random.default_rng(0).uniform(-4, 4, (3, problem.dim)).astype(dtype)
    for t in (1, 2, 300):
        gradient = problem.gradient(t, x)
        expected = by_numpy(lambda t=t: plain.gradient(t, x))
        assert gradient.dtype == dtype
        tolerance = 1e-13 if dtype == np.float64 else 1e-5
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dim": 1, "reduce": "mean"},
        {"noise": 0.0},
        {"threshold": 0.05},  # within reach of the noise from one kink to the other
        {"threshold": 1e-9},
        {"noise": 1e-3, "truncate": 1.0},
        {"dim": 65},
        {"phi": "diagonal"},
    ],
    ids=str,
)
def test_the_expected_huber_loss_but_for_rounding(by_numpy, options):
    seeds = tuple(range(20))
    problem = Huber(Place(1, 4, seeds), **options)
    plain = by_numpy(lambda: Huber(Place(1, 4, seeds), **options))
    random = np.random.default_rng(0)
    x = random.uniform(-4, 4, (20, problem.dim))  # on both sides of the kinks
    x_star = [Place(1, 4, seeds).random(seed, Huber.X_STAR, shared=True) for seed in seeds]
    near = np.stack([draw.uniform(-1, 1, problem.dim) for draw in x_star])
    near += random.uniform(-0.1, 0.1, near.shape)  # and between them
    for at in (x, near, np.asfortranarray(x), x.astype(np.float32)):
        for value, expected in zip(problem.evaluate(at), plain.evaluate(at), strict=True):
            assert value.dtype == np.float64
            np.testing.assert_allclose(value, expected, rtol=1e-13, atol=1e-13)
    x[3, 0] = np.nan
    loss, gradient = problem.evaluate(x)
    assert np.flatnonzero(np.isnan(loss)).tolist() == [3]
    assert np.flatnonzero(np.isnan(gradient).any(axis=1)).tolist() == [3]


@pytest.mark.parametrize("shape", [(50, 1, 10), (333, 10, 7), (3, 2, 2000), (1, 1, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_softmax_slopes_but_for_rounding(by_numpy, shape, dtype):
    random = np.random.default_rng(0)
    rows, groups, classes = shape
    spread = np.exp(random.uniform(-3, 7, (rows, groups, 1)))
    z = (random.standard_normal(shape) * spread).astype(dtype)
    labels = random.integers(0, classes, rows)
    z[: rows // 2, :, 0] = z[: rows // 2].max(axis=2)  # often two are the largest: the first counts

    def compute():
        slope, loss, correct = z.copy(), np.ones(groups), np.ones(groups, np.int64)
        slopes(slope, labels, 0.25, loss, correct)
        return slope, loss, correct

    (slope, loss, correct), (expected, expected_loss, expected_correct) = (
        compute(),
        by_numpy(compute),
    )
    epsilon = 2e-16 if dtype == np.float64 else 1e-6
    assert slope.dtype == dtype
    np.testing.assert_allclose(slope, expected, rtol=0, atol=epsilon)
    np.testing.assert_allclose(loss, expected_loss, rtol=10 * epsilon)
    np.testing.assert_array_equal(correct, expected_correct)


def test_what_is_not_finite_stays_so():
    z = np.array([[[np.nan, 1.0, 2.0]], [[np.inf, 1.0, 2.0]]])
    loss = np.zeros(1)
    slopes(z, np.array([0, 1]), 1.0, loss)
    assert np.isnan(z).any(axis=2).all()
    assert np.isnan(loss[0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        ({}, 1),
        ({"batch": 1, "classes": 2}, 3),
        ({"batch": 100, "features": 300, "reg": 0.5}, 5),  # one seed or two at a time
        ({"batch": 7, "features": 130, "classes": 11}, 60),  # in groups, the last one smaller
    ],
    ids=str,
)
def test_the_softmax_gradient_to_the_bit(options, seeds, dtype):
    problem = Softmax(Place(1, 4, tuple(range(seeds)), np.dtype(dtype)), **options)
    x = np.random.default_rng(0).standard_normal((seeds, problem.dim)).astype(dtype)
    results = [problem._kernel(t, x) for t in (1, 2, 300)]
    for t, gradient in zip((1, 2, 300), results, strict=True):
        assert gradient.dtype == dtype
        np.testing.assert_array_equal(gradient, problem.gradient(t, x))


@pytest.mark.parametrize("stored", [np.uint8, np.float64, np.int16])
def test_rows_are_taken_as_they_are_stored(stored):
    class Stored(Softmax):
        def _load(self, place, **options):
            super()._load(place, **options)
            self._x = (20 * self._x).astype(stored)
            self._scale = 0.05

    problem = Stored(Place(0, 2, (0, 1)))
    x = np.random.default_rng(0).standard_normal((2, problem.dim))
    if stored is np.int16:
        assert problem._kernel is None
    else:
        np.testing.assert_array_equal(problem._kernel(5, x), problem.gradient(5, x))


def test_what_the_softmax_kernel_does_not_know_is_left_to_numpy():
    problem = Softmax(Place(0, 2, (0, 1)))
    x = np.random.default_rng(0).standard_normal((2, problem.dim))
    np.testing.assert_array_equal(problem._kernel(3, np.asfortranarray(x)), problem.gradient(3, x))
    assert Softmax(Place(0, 2, (0,), reproducible=True))._kernel is None
