"""Shares of the rows per node, and synthetic rows."""

from dataclasses import replace

import numpy as np
import pytest

from mpi_gt.datasets import Synthetic, rows_of_node


@pytest.mark.parametrize("split", ["iid", "label", "dirichlet:0.3", "dirichlet:100"])
@pytest.mark.parametrize("nodes", [1, 3, 16])
def test_every_row_belongs_to_one_node(split, nodes):
    labels = np.random.default_rng(0).choice(4, 1003, p=[0.7, 0.1, 0.1, 0.1])
    shards = [rows_of_node(split, labels, node, nodes, seed=5) for node in range(nodes)]
    assert {len(shard) for shard in shards} == {1003 // nodes}
    together = np.concatenate(shards)
    assert len(set(together.tolist())) == len(together)
    for shard in shards:
        assert (np.diff(shard) > 0).all()
    again = rows_of_node(split, labels, nodes - 1, nodes, seed=5)
    np.testing.assert_array_equal(shards[-1], again)


def test_what_the_splits_are():
    labels = np.random.default_rng(0).choice(4, 4000)

    def kinds(split):
        """Return the mean share of a node's most frequent class."""
        shards = [labels[rows_of_node(split, labels, node, 8, 0)] for node in range(8)]
        return np.mean([np.bincount(shard).max() / len(shard) for shard in shards])

    assert kinds("iid") < 0.33
    assert kinds("label") > 0.85
    assert kinds("dirichlet:0.1") > 0.6
    assert kinds("dirichlet:1000") < 0.35
    ordered = np.concatenate(
        [labels[rows_of_node("label", labels, node, 8, 0)] for node in range(8)]
    )
    assert (np.diff(np.sort(ordered[:500])) >= 0).all()
    assert ordered[:500].max() <= ordered[-500:].min()
    shuffled = [tuple(rows_of_node("iid", labels, 0, 8, seed)) for seed in (0, 1)]
    assert shuffled[0] != shuffled[1]


@pytest.mark.parametrize(
    "split", ["", "none", "iid:3", "dirichlet", "dirichlet:0", "dirichlet:-1", "dirichlet:nan"]
)
def test_bad_split(split):
    with pytest.raises(ValueError, match="split must be"):
        rows_of_node(split, np.zeros(10, int), 0, 2, 0)


def test_fewer_rows_than_nodes():
    with pytest.raises(ValueError, match="10 rows are too few for 11 nodes"):
        rows_of_node("iid", np.zeros(10, int), 0, 11, 0)


def test_any_rows_of_a_synthetic_dataset():
    source = Synthetic(5000, 7, 3, seed=1)
    whole = source.read(np.arange(5000))
    some = np.array([0, 1, 1023, 1024, 3000, 4999])
    np.testing.assert_array_equal(source.read(some), whole[some])
    assert not np.array_equal(whole[:10], replace(source, part=1).read(np.arange(10)))
