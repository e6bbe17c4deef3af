"""What a node makes of the vectors that arrive, and of those that do not."""

import numpy as np
import pytest

from mpi_gt.channels import Channel
from mpi_gt.channels.draws import Draws
from mpi_gt.channels.reception import Reception, without_lost
from mpi_gt.graphs import build_network
from mpi_gt.kernels.reference import WeightedSum

N = 6


def receptions(text, network):
    channel = Channel.of(text)
    draws = Draws(channel)
    return [Reception(draws, network.row(i), channel.noise > 0) for i in range(N)]


def matrix_at(text, t, kind="A"):
    """Return A_t: the columns are the mixed unit vectors."""
    network = build_network("er:p=0.8", None, N)
    unit = np.eye(N)
    rows = [
        reception.mixed(t, 0, kind, unit[i], {j: unit[j] for j in network.row(i).neighbours})
        for i, reception in enumerate(receptions(text, network))
    ]
    return np.array(rows), network.matrix


@pytest.mark.parametrize("text", ["links=0.4", "inactive=0.3", "links=0.3,burst=3"])
def test_the_matrix_stays_doubly_stochastic_and_symmetric(text):
    changed = 0
    for t in range(1, 60):
        made, full = matrix_at(text, t)
        assert np.array_equal(made, made.T)
        assert np.abs(made.sum(axis=0) - 1).max() < 1e-15
        off = ~np.eye(N, dtype=bool)
        assert np.all((made[off] == full[off]) | (made[off] == 0))
        changed += not np.array_equal(made, full)
    assert changed > 20


def test_a_lost_message_leaves_rows_of_sum_one_only():
    sums = [matrix_at("loss=0.3", t)[0].sum(axis=axis) for t in range(1, 30) for axis in (0, 1)]
    columns, rows = np.array(sums[::2]), np.array(sums[1::2])
    assert np.abs(rows - 1).max() < 1e-15
    assert np.abs(columns - 1).max() > 0.1


def test_what_arrives_is_added_up_in_rank_order():
    network = build_network("complete", None, N)
    reception = receptions("links=1e-12", network)[2]
    everyone = np.random.default_rng(0).standard_normal((N, 3, 5))
    mixed = reception.mixed(1, 0, "A", everyone[2], {j: everyone[j] for j in range(N) if j != 2})
    theirs = everyone[[0, 1, 3, 4, 5]].reshape(5, -1)
    assert np.array_equal(mixed, WeightedSum(network.matrix[2], 2, 15)(theirs, everyone[2]))


def test_weights_that_are_lost_go_to_the_node_itself():
    weights, place = without_lost(np.array([0.1, 0.2, 0.3, 0.4]), 2, np.array([False, True, False]))
    assert weights.tolist() == [0.2, (0.3 + 0.1) + 0.4]
    assert place == 1


def test_apart_a_lost_vector_is_replaced_by_the_own_one():
    network = build_network("complete", None, N)
    reception = receptions("loss=0.5", network)[0]
    everyone = np.random.default_rng(0).standard_normal((N, 2, 3))
    theirs = {j: everyone[j] for j in range(1, N)}
    heard = Draws(Channel.of("loss=0.5")).arrivals(4, 0, (1, 2, 3, 4, 5))
    assert 0 < heard.sum() < 5
    made = reception.each(4, 0, everyone[0], theirs)
    assert list(made) == [1, 2, 3, 4, 5]
    for j, arrives in zip(made, heard, strict=True):
        assert np.array_equal(made[j], everyone[j] if arrives else everyone[0])
        assert not np.shares_memory(made[j], everyone)


def test_what_is_lost_cannot_spoil_the_sum():
    network = build_network("complete", None, 2)
    draws = Draws(Channel.of("loss=0.5"))
    t = next(t for t in range(1, 99) if not draws.arrivals(t, 0, (1,))[0])
    reception = Reception(draws, network.row(0), noise=False)
    mixed = reception.mixed(t, 0, "A", np.ones(3), {1: np.full(3, np.nan)})
    assert mixed.tolist() == [1, 1, 1]


def test_noise_is_added_to_what_arrives_only():
    network = build_network("complete", None, N)
    reception = receptions("noise=0.1", network)[0]
    zero = np.zeros((2, 50))
    made = reception.each(1, 0, zero, dict.fromkeys(range(1, N), zero))
    numbers = np.array(list(made.values()))
    assert numbers.std() == pytest.approx(0.1, rel=0.15)
    mixed = reception.mixed(1, 0, "A", zero, dict.fromkeys(range(1, N), zero))
    np.testing.assert_allclose(mixed, numbers.sum(axis=0) / N, atol=1e-16)
    half = reception.each(1, 0, zero.astype(np.float32), dict.fromkeys(range(1, N), zero))
    assert half[1].dtype == np.float32
    assert np.array_equal(half[1], made[1].astype(np.float32))
