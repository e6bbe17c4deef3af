"""Unreliable channels on real ranks: the bits of a stacked run, with every exchange."""

import numpy as np
import pytest

import mpi_gt
from mpi_gt.channels import Channel
from mpi_gt.comm.exchange import EXCHANGES
from mpi_gt.comm.node import Node
from mpi_gt.comm.stacked import StackedNode
from mpi_gt.graphs import build_network

pytestmark = pytest.mark.mpi

OPTIONS = {"iterations": 25, "seeds": 2, "problem": "huber:dim=6,spread=0.3", "graph": "er:p=0.7"}
LOSSES, NOISE = "links=0.1,loss=0.2,burst=3", "inactive=0.3,noise=0.01"


@pytest.mark.parametrize(("text", "dtype"), [(LOSSES, np.float64), (NOISE, np.float32)])
def test_all_exchanges_equal_stacked_over_a_channel(comm, random, text, dtype):
    network, channel = build_network("er:p=0.7", None, comm.size), Channel.of(text)
    rows = [network.row(i) for i in range(comm.size)]
    everyone = random.standard_normal((2, comm.size, 3, 37)).astype(dtype)
    stacked = StackedNode(network.arcs)
    stacked.hear_through(channel)
    expected = []
    for stacked.iteration in (1, 2, 300):
        made = [*stacked.mix(*everyone), stacked.mix(everyone[0])]
        expected.append([each.wait()[comm.rank].tobytes() for each in made])
    for name, exchange in EXCHANGES.items():
        node = Node(comm, rows[comm.rank], exchange)
        node.hear_through(channel)
        for place, node.iteration in enumerate((1, 2, 300)):
            made = [each.wait().tobytes() for each in node.mix(*everyone[:, comm.rank])]
            made.append(node.mix(everyone[0, comm.rank]).wait().tobytes())
            assert made == expected[place], name
        node.free()


@pytest.mark.parametrize("text", [LOSSES, NOISE])
def test_a_run_over_a_channel_equals_stacked(comm, text):
    """The bits are the same, also of a method that mixes twice in a step."""
    options = {**OPTIONS, "algorithms": "gt,gt-adaptive,own_methods:Median", "channel": text}
    ours = mpi_gt.run(comm, **options)
    alone = mpi_gt.run(n=comm.size, stacked=True, **options) if comm.rank == 0 else None
    stacked = comm.bcast(alone)
    for label, x in ours.outputs.items():
        assert x.tobytes() == stacked.outputs[label][comm.rank].tobytes()
    if comm.rank == 0:
        for mine, theirs in zip(ours.metrics, stacked.metrics, strict=True):
            assert mine["bytes"] == theirs["bytes"]
            assert mine["gradients"] == theirs["gradients"]


def test_links_keep_the_mean_of_the_trackers(comm):
    ours = mpi_gt.run(comm, algorithms="gt,gt-adaptive", channel="links=0.1", **OPTIONS)
    assert all(row["tracking"] < 1e-12 for row in ours.metrics)


def test_a_result_of_a_channel_must_be_waited_for_once(comm):
    network = build_network("complete", None, comm.size)
    node = Node(comm, network.row(comm.rank), EXCHANGES["neighbor"])
    node.hear_through(Channel.of("links=0.1"))
    node.iteration = 1
    pending = node.mix(np.ones((1, 3)))
    with pytest.raises(RuntimeError, match="never waited for"):
        node.mix(np.ones((1, 3)))
    pending.wait()
    with pytest.raises(RuntimeError, match="waited for already"):
        pending.wait()
    node.free()


def test_a_vector_may_be_changed_before_the_wait(comm):
    network = build_network("complete", None, comm.size)
    node = Node(comm, network.row(comm.rank), EXCHANGES["neighbor"])
    node.hear_through(Channel.of("links=0.5"))
    node.iteration, z = 1, np.ones((1, 3))
    pending = node.mix(z)
    z[:] = np.nan
    np.testing.assert_allclose(pending.wait(), np.ones((1, 3)), atol=1e-15)
    node.free()
