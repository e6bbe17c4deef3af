"""The option --channel: its parsing, and the methods that it suits."""

import pytest

from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.channels import Channel
from mpi_gt.channels.methods import methods_for
from mpi_gt.errors import UserError


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "links", "links=", "links=x", "links=1", "links=-0.1", "links=nan", "loss=1",
        "loss=inf", "loss=0..0.3", "inactive=1", "inactive=nan", "noise=-1", "noise=nan",
        "noise=inf", "seed=1", "burst=5", "noise=1,burst=5", "inactive=0.1,burst=2",
        "links=0.1,burst=0.9", "links=0.1,burst=nan", "links=0.1,burst=inf", "links=0.6,burst=1",
        "loss=0.9,burst=8", "links=0.1,seed=-1", "links=0.1,seed=1e19", "links=0.1,seed=0.5",
        "links=0.1,links=0.2", "link=0.1", "links=0.1;loss=0.1",
    ],
)  # fmt: skip
def test_channels_that_are_none(text):
    with pytest.raises(UserError, match="channel"):
        Channel.of(text)


def test_options_may_be_combined():
    channel = Channel.of("links=0.1, noise=1e-3,burst=5,seed=7")
    assert channel == Channel(links=0.1, noise=1e-3, burst=5.0, seed=7)
    assert channel.fails
    assert Channel.of("links=0.5,burst=1").burst == 1
    assert not Channel.of("noise=0.1").fails
    assert not Channel.of("links=0,noise=0,inactive=0").acts


def test_methods_that_need_one_matrix_take_noise_only():
    with pytest.raises(UserError, match="extra needs the same mixing matrix"):
        Channel.of("inactive=0.1").require_method("extra", ALGORITHMS["extra"]())
    Channel.of("noise=0.1").require_method("extra", ALGORITHMS["extra"]())
    Channel.of("loss=0").require_method("extra", ALGORITHMS["extra"]())


def test_compressed_methods_take_no_channel():
    with pytest.raises(UserError, match="beer adds up compressed differences"):
        Channel.of("noise=0.1").require_method("beer", ALGORITHMS["beer"]())


def test_all_methods_are_those_that_take_the_channel():
    assert methods_for([]).split(",") == list(ALGORITHMS)
    assert methods_for(["burst", "seed"]).split(",") == list(ALGORITHMS)
    left = set(ALGORITHMS) - set(methods_for(["loss", "burst", "lr"]).split(","))
    assert {"extra", "exact-diffusion", "beer", "lead"} <= left
    assert not left & {"gt", "gt-adaptive", "dsgd", "k-gt"}
    assert "extra" in methods_for(["noise"]).split(",")
