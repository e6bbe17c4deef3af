"""Means over all ranks, to the bit, by each way in which the vectors come together."""

import numpy as np
import pytest

from mpi_gt.comm.exchange import EXCHANGES
from mpi_gt.comm.means import GATHERED, PIECE
from mpi_gt.comm.node import Node
from mpi_gt.comm.stacked import StackedNode
from mpi_gt.graphs import build_network

pytestmark = pytest.mark.mpi


def make(comm):
    row = build_network("ring", None, comm.size).row(comm.rank)
    return Node(comm, row, EXCHANGES["neighbor"])


def plain_mean(everyone):
    """Return the mean along the tree, as the manual defines it."""
    values = [z.astype(np.float64) for z in everyone]
    distance = 1
    while distance < len(values):
        for rank in range(0, len(values) - distance, 2 * distance):
            values[rank] = values[rank] + values[rank + distance]
        distance *= 2
    return values[0] / len(values)


def along_tree(monkeypatch, piece=PIECE):
    monkeypatch.setattr("mpi_gt.comm.node.GATHERED", 0)
    monkeypatch.setattr("mpi_gt.comm.node.PIECE", piece)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (2, PIECE), (1, 2 * PIECE + 3)])
def test_the_mean_is_that_of_the_plain_tree(comm, random, shape, dtype):
    everyone = random.standard_normal((comm.size, *shape)).astype(dtype)
    node = make(comm)
    expected = plain_mean(everyone)
    mean = node.mean(everyone[comm.rank])
    assert mean.dtype == np.float64
    np.testing.assert_array_equal(mean, expected)
    on_root_only = node.mean(everyone[comm.rank], everywhere=False)
    if node.is_root:
        np.testing.assert_array_equal(on_root_only, expected)
    else:
        assert on_root_only is None
    node.free()


def test_the_mean_is_the_same_on_both_sides_of_the_limit(comm):
    node = make(comm)
    limit = GATHERED // (8 * comm.size)
    z = np.random.default_rng(comm.rank).standard_normal(limit + 1)
    gathered, along = node.mean(z[:limit]), node.mean(z)
    assert gathered.tobytes() == along[:limit].tobytes()
    node.free()


def test_the_mean_is_the_same_in_pieces_and_stacked(comm, random, monkeypatch):
    node = make(comm)
    everyone = random.standard_normal((comm.size, 3, 11))
    stacked = StackedNode(build_network("ring", None, comm.size).arcs).mean(everyone)
    assert node.mean(everyone[comm.rank]).tobytes() == stacked.tobytes()
    for piece in (1, 5, 32, 33, 34):
        along_tree(monkeypatch, piece)
        assert node.mean(everyone[comm.rank]).tobytes() == stacked.tobytes()
        on_root_only = node.mean(everyone[comm.rank], everywhere=False)
        assert on_root_only is None or on_root_only.tobytes() == stacked.tobytes()
    node.free()


def test_the_mean_is_the_callers_and_leaves_its_input(comm, monkeypatch):
    node = make(comm)
    for _ in range(2):
        z = np.full((2, 3), float(comm.rank))
        z.flags.writeable = False
        first = node.mean(z)
        kept = first.copy()
        node.mean(z + 1)
        np.testing.assert_array_equal(first, kept)
        first[:] = 7
        assert (z == comm.rank).all()
        along_tree(monkeypatch, 4)
    node.free()


def test_the_mean_is_not_finite_where_a_node_is_not(comm, monkeypatch):
    node = make(comm)
    z = np.zeros(4)
    if comm.rank == comm.size - 1:
        z[1:] = np.inf, -np.inf, np.nan
    if comm.rank == 0:
        z[2] = np.inf
    second = np.nan if comm.size > 1 else np.inf
    for _ in range(2):
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(node.mean(z), [0, np.inf, second, np.nan])
        along_tree(monkeypatch)
    node.free()


def test_the_mean_is_as_many_waits_on_every_rank(comm, monkeypatch):
    """The watchdog takes the rank with the fewest for the one that was stuck first."""
    node = make(comm)
    for _ in range(2):
        node.mean(np.zeros(9))
        node.mean(np.zeros(9), everywhere=False)
        along_tree(monkeypatch, 4)
    assert len(set(comm.allgather(node.waits))) == 1
    assert node.waiting is None
    node.free()
