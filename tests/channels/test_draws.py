"""The draws of a channel: their frequencies, bursts, and independence of what was drawn before."""

import numpy as np
import pytest

from mpi_gt.channels import Channel
from mpi_gt.channels.draws import BLOCK, LINKS, LOSS, Draws

T = 40 * BLOCK


def arrivals(text, node=0, sources=(1, 2, 5), iterations=range(1, T + 1)):
    draws = Draws(Channel.of(text))
    return np.array([draws.arrivals(t, node, sources) for t in iterations])


def bursts(failures):
    """Return the lengths of all bursts, of each column."""
    lengths = []
    for column in failures.T:
        edges = np.diff(np.concatenate([[0], column.astype(int), [0]]))
        lengths += (np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)).tolist()
    return np.array(lengths)


@pytest.mark.parametrize("text", ["links=0.1", "loss=0.3", "links=0.1,seed=5"])
def test_the_share_that_fails_and_no_memory(text):
    failed = ~arrivals(text)
    share = float(text.partition("=")[2].partition(",")[0])
    deviation = np.sqrt(share * (1 - share) / failed.size)
    assert abs(failed.mean() - share) < 4 * deviation
    after = failed[1:][failed[:-1]].mean()  # the share after a failure
    assert abs(after - share) < 4 * deviation / np.sqrt(share)
    together = (failed[:, 0] & failed[:, 1]).mean()
    assert abs(together - share**2) < 4 * share / np.sqrt(T)


@pytest.mark.parametrize(
    ("share", "burst"), [(0.1, 5), (0.3, 20), (0.1, 1), (0.5, 1), (0.5, 1.5), (0.75, 3), (0.4, 1.2)]
)
def test_bursts_have_their_share_and_mean_length(share, burst):
    failed = ~arrivals(f"loss={share},burst={burst}", sources=tuple(range(1, 9)))
    lengths = bursts(failed)
    # a geometric length has about its mean as deviation; long bursts come in smaller numbers
    assert lengths.mean() == pytest.approx(burst, rel=4 / np.sqrt(len(lengths)))
    assert failed.mean() == pytest.approx(share, rel=8 / np.sqrt(len(lengths)))
    if burst == 1:
        assert (lengths == 1).all()


def test_the_first_iteration_of_a_bursty_channel_has_the_share_as_well():
    draws = Draws(Channel.of("loss=0.2,burst=50"))
    first = [not draws.arrivals(1, 0, (source,))[0] for source in range(1, 2001)]
    assert abs(np.mean(first) - 0.2) < 4 * 0.4 / np.sqrt(2000)


@pytest.mark.parametrize(
    "text",
    ["links=0.1", "loss=0.2,links=0.1", "links=0.1,burst=5", "loss=0.5,burst=1",
     "loss=0.4,burst=1.2", "links=0.1,burst=1e6", "inactive=0.3"],
)  # fmt: skip
def test_a_draw_does_not_depend_on_those_before(text):
    """A run may be resumed at any iteration, and look back over as many blocks as a burst has."""
    whole = arrivals(text, iterations=range(1, 5 * BLOCK))
    for t in (1, 2, BLOCK, BLOCK + 1, 3 * BLOCK + 7, 5 * BLOCK - 1):
        assert np.array_equal(arrivals(text, iterations=[t])[0], whole[t - 1])
    backwards = arrivals(text, iterations=range(5 * BLOCK - 1, 0, -50))
    assert np.array_equal(backwards, whole[::-1][::50])


@pytest.mark.parametrize("text", ["links=0.3", "links=0.3,burst=4"])
def test_a_link_is_down_in_both_directions(text):
    draws = Draws(Channel.of(text))
    for t in range(1, 400):
        assert draws.arrivals(t, 3, (8,)) == draws.arrivals(t, 8, (3,))


def test_messages_of_the_two_directions_are_lost_by_themselves():
    there, back = arrivals("loss=0.3", 1, (2,)), arrivals("loss=0.3", 2, (1,))
    assert abs((~there & ~back).mean() - 0.09) < 4 * 0.3 / np.sqrt(T)


def test_links_and_loss_have_draws_of_their_own():
    draws = Draws(Channel.of("links=0.5,loss=0.5"))
    links, losses = (draws.failures(purpose, 0.5, 0, 1, 2) for purpose in (LINKS, LOSS))
    assert not np.array_equal(links, losses)


def test_an_inactive_node_hears_nobody_and_is_not_heard():
    draws = Draws(Channel.of("inactive=0.3"))
    active = np.array([[draws.active(t, node) for node in range(4)] for t in range(1, T + 1)])
    assert abs(active.mean() - 0.7) < 4 * 0.46 / np.sqrt(active.size)
    heard = arrivals("inactive=0.3", 0, (1, 2, 3))
    assert np.array_equal(heard, active[:, :1] & active[:, 1:])


def test_another_seed_is_another_realisation():
    assert not np.array_equal(arrivals("links=0.3"), arrivals("links=0.3,seed=1"))


@pytest.mark.parametrize("size", [3, 600])
def test_noise_is_normal_with_its_deviation_and_independent(size):
    draws = Draws(Channel.of("noise=0.02"))
    noise = np.array([draws.noise(t, 1, (0, 2), 0, size) for t in range(1, 12000 // size)])
    assert noise.std() == pytest.approx(0.02, rel=4 / np.sqrt(2 * noise.size))
    assert abs(noise.mean()) < 4 * 0.02 / np.sqrt(noise.size)
    assert np.mean(np.abs(noise) < 0.02) == pytest.approx(0.6827, abs=0.02)
    assert len(np.unique(noise)) == noise.size
    other = Draws(Channel.of("noise=0.02"))
    assert np.array_equal(other.noise(7, 1, (2,), 0, size)[0], noise[6, 1])
    for different in ((8, 1, (2,), 0), (7, 2, (1,), 0), (7, 1, (2,), 1)):
        assert not np.isin(other.noise(*different, size), noise[6, 1]).any()
