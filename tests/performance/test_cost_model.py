"""The cost model: a fit finds the numbers that made the times."""

import numpy as np
import pytest

from mpi_gt.performance.cost_model import Cost, fit


def test_a_fit_finds_the_numbers_that_made_the_times():
    true = Cost(latency=30e-6, bandwidth=2e9, per_message=1.5e-6)
    degrees = [2, 2, 2, 11, 11, 11]
    sizes = [160, 16_000, 1_600_000] * 2
    times = [true.seconds(d, s) for d, s in zip(degrees, sizes, strict=True)]
    found = fit(degrees, sizes, times)
    assert found.latency == pytest.approx(true.latency, rel=1e-6)
    assert found.bandwidth == pytest.approx(true.bandwidth, rel=1e-6)
    assert found.per_message == pytest.approx(true.per_message, rel=1e-6)
    assert found.r2 == pytest.approx(1)
    assert found.worst < 1e-9


def test_a_fit_is_never_negative_and_says_how_good_it_is():
    falling = fit([2, 2, 2], [160, 1600, 16_000], [5e-5, 4e-5, 3e-5])
    assert falling.latency > 0
    assert falling.bandwidth == np.inf
    assert falling.worst > 0.2
    assert falling.r2 < 0.7
