"""The order in which means are added up, without MPI."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from mpi_gt.comm.means import Tree, add_along_tree
from mpi_gt.comm.stacked import StackedNode
from mpi_gt.graphs import build_network


def plain_sum(values):
    """Return the sum of one number per node along the tree, as the manual defines it."""
    values = list(values)
    distance = 1
    while distance < len(values):
        for node in range(0, len(values) - distance, 2 * distance):
            values[node] = values[node] + values[node + distance]
        distance *= 2
    return values[0]


@pytest.mark.parametrize("nodes", [*range(1, 20), 31, 64, 100])
@pytest.mark.parametrize("width", [1, 3])
def test_rows_are_added_up_along_the_tree(nodes, width):
    rows = np.random.default_rng(nodes).standard_normal((nodes, width))
    before = rows.copy()
    expected = [plain_sum(column) for column in rows.T.tolist()]
    assert add_along_tree(rows).tolist() == expected
    np.testing.assert_array_equal(rows, before)


def test_numbers_in_float32_are_added_up_in_float64():
    rows = np.random.default_rng(0).standard_normal((7, 2, 5)).astype(np.float32)
    total = add_along_tree(rows)
    assert total.dtype == np.float64
    np.testing.assert_array_equal(total, add_along_tree(rows.astype(np.float64)))


def test_the_sum_is_nearer_to_the_exact_one_than_in_rank_order():
    rows = np.random.default_rng(1).standard_normal((4096, 50))
    exact = [float(sum(map(Fraction, column))) for column in rows.T.tolist()]
    error = np.abs(add_along_tree(rows) - exact).mean()
    assert error < np.abs(np.add.accumulate(rows)[-1] - exact).mean() / 4


def test_sums_of_counts_are_exact():
    """The bytes that all nodes have sent are computed from a mean."""
    counts = np.random.default_rng(2).integers(2**44, 2**47, (37, 1))
    assert int(add_along_tree(counts.astype(np.float64))[0]) == int(counts.sum())


def test_what_is_not_finite_stays_so():
    rows = np.zeros((5, 4))
    rows[4, 1:] = np.inf, -np.inf, np.nan
    rows[0, 2] = np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(add_along_tree(rows), [0, np.inf, np.nan, np.nan])


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 10_000])
def test_every_rank_sends_once_and_receives_at_most_a_logarithm(size):
    trees = [Tree(SimpleNamespace(rank=rank, size=size)) for rank in range(size)]
    parents = {child: rank for rank, tree in enumerate(trees) for child in tree.children}
    assert sorted(parents) == list(range(1, size))
    assert all(trees[child].parent == rank for child, rank in parents.items())
    assert max(len(tree.children) for tree in trees) == (size - 1).bit_length()


@pytest.mark.parametrize("shape", [(1, 1), (2, 3)])
def test_a_stacked_mean_is_that_of_the_tree(shape):
    node = StackedNode(build_network("ring", None, 6).arcs)
    z = np.random.default_rng(3).standard_normal((6, *shape))
    np.testing.assert_array_equal(node.mean(z), add_along_tree(z) / 6)
