"""Unreliable channels on real ranks: the bits of a stacked run, with every exchange."""

import sys
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import mpi_gt
from mpi_gt.channels import Channel
from mpi_gt.comm.exchange import EXCHANGES
from mpi_gt.comm.node import Node
from mpi_gt.comm.stacked import StackedNode
from mpi_gt.graphs import build_network

sys.path.insert(0, str(Path(__file__).parent.parent))
from networks import mixed

pytestmark = pytest.mark.mpi

OPTIONS = {"iterations": 12, "seeds": 2, "problem": "huber:dim=6,spread=0.3", "graph": "er:p=0.7"}
LOSSES, NOISE = "links=0.1,loss=0.2,burst=3", "inactive=0.3,noise=0.01"


@pytest.fixture
def comm():
    made = MPI.COMM_WORLD.Dup()
    yield made
    made.Free()


@pytest.mark.parametrize(
    ("name", "text", "dtype"),
    [("er", LOSSES, np.float32), ("mixed", f"{LOSSES},{NOISE}", np.float64)],
)
def test_all_exchanges_equal_stacked_over_a_channel(comm, random, name, text, dtype):
    """Also on directed layers in turn, with a matrix for each vector."""
    static = build_network("er:p=0.7", None, comm.size).arcs
    arcs, kinds = (static, ("A",)) if name == "er" else (mixed(comm.size), ("pull", "push"))
    everyone = random.standard_normal((2, comm.size, 3, 37)).astype(dtype)
    stacked = StackedNode(arcs)
    expected = [
        [vector[comm.rank].tobytes() for vector in each]
        for each in mixed_twice(stacked, kinds, text, everyone)
    ]
    for exchange in EXCHANGES.values():
        node = Node(comm, arcs.row(comm.rank), exchange)
        ours = mixed_twice(node, kinds, text, everyone[:, comm.rank])
        assert [[vector.tobytes() for vector in each] for each in ours] == expected, exchange
        node.free()


def mixed_twice(node, kinds, text, vectors):
    """Return the results of two exchanges, of two vectors and of one, at some iterations."""
    node.hear_through(Channel.of(text))
    node.mix_by(kinds)
    made = []
    for node.iteration in (1, 2, 3, 300):
        both = [each.wait() for each in node.mix(*vectors)]
        made.append([*both, node.mix(vectors[0]).wait()])
    return made


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
