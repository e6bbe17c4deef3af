"""A node that is slow on purpose."""

import pytest

from mpi_gt.errors import UserError
from mpi_gt.problems.straggler import Straggler


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node=1",
        "ms=5",
        "node=x,ms=5",
        "node=-1,ms=5",
        "node=1,ms=-5",
        "node=1,ms=5,jitter=6",
        "node=1,ms=5,probability=0",
        "node=1,ms=nan",
        "node=1,ms=5,colour=red",
    ],
)
def test_stragglers_that_are_none(text):
    with pytest.raises(UserError, match="straggler"):
        Straggler.of(text)


def test_only_that_node_is_slow():
    def gradient(t, x):
        return x + t

    slow = Straggler.of("node=2,ms=1,jitter=1,probability=0.5")
    assert slow.slow(gradient, 1) is gradient
    assert slow.slow(gradient, 2)(3, 4) == 7
