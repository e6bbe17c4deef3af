"""Random draws and noise of the kernels against numpy: the same to the last bit."""

import numpy as np
import pytest

from mpi_gt.fuse import entrywise
from mpi_gt.problems import Place
from mpi_gt.problems.base import Draws
from mpi_gt.problems.truncated_normal import TruncatedNormal

pytestmark = pytest.mark.usefixtures("kernels_built")


@pytest.mark.parametrize("width", [1, 3, 10, 123, 300, 7840, 100_000])
def test_the_same_draws(by_numpy, width):
    place = Place(3, 5, (0, 7, 2**63 + 5))
    compiled_draws, draws = Draws(place, 4, width), by_numpy(lambda: Draws(place, 4, width))
    kept = compiled_draws.at(1), compiled_draws.at(1).copy()
    for t in (1, 2, 3, 16, 17, 255, 256, 257, 1000, 5):
        expected = by_numpy(lambda t=t: draws.at(t))
        np.testing.assert_array_equal(compiled_draws.at(t), expected)
        assert not compiled_draws.at(t).flags.writeable
    np.testing.assert_array_equal(*kept)  # arrays that were returned are not overwritten
    with pytest.raises(ValueError, match="cannot be drawn"):
        compiled_draws.at(0)
    np.testing.assert_array_equal(compiled_draws.at(1), kept[1])


def test_the_same_noise(by_numpy):
    uniform = np.random.default_rng(0).random((3, 50, 10))
    samples = TruncatedNormal(0.2, 0.1).sample(uniform)
    plain = by_numpy(lambda: TruncatedNormal(0.2, 0.1).sample(uniform))
    np.testing.assert_array_equal(samples, plain)
    assert np.abs(samples).max() <= 0.1


@pytest.mark.parametrize("seeds", [(0,), (4, 2**64 - 1), tuple(range(50))], ids=len)
def test_the_same_noise_without_python(by_numpy, seeds):
    """The kernels draw and transform by themselves, at any t, within a block and past it."""
    place = Place(2, 5, seeds)
    drawn = Draws(place, 4, 10, TruncatedNormal(0.2, 0.1).sample)
    draws = by_numpy(lambda: Draws(place, 4, 10, TruncatedNormal(0.2, 0.1).sample))
    assert drawn._program is not None
    assert draws._program is None
    kept = drawn.at(1), drawn.at(1).copy()
    for t in (1, 2, 3, 255, 256, 257, 258, 1, 10_000):
        np.testing.assert_array_equal(drawn.at(t), by_numpy(lambda t=t: draws.at(t)))
        assert not drawn.at(t).flags.writeable
    np.testing.assert_array_equal(*kept)  # arrays that were returned are not overwritten
    with pytest.raises(ValueError, match="cannot be drawn"):
        drawn.at(0)


def test_draws_by_a_program_that_does_not_fit():
    draws = Draws(Place(0, 1, (0,)), 1, 4, entrywise(lambda a: a + 1, 1))
    draws._program = entrywise(lambda a, b: a + b, 2).program  # of two arrays
    np.testing.assert_array_equal(draws(1), Draws(Place(0, 1, (0,)), 1, 4)(1) + 1)
