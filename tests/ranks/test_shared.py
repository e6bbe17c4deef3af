"""The exchange `shared` on one host, and on hosts that are only said to be several."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mpi_gt.comm import segments, shared
from mpi_gt.comm.exchange import EXCHANGES
from mpi_gt.comm.node import Node
from mpi_gt.comm.timing import choose_exchange, unavailable_reason
from mpi_gt.errors import UserError
from mpi_gt.graphs import build_network

sys.path.insert(0, str(Path(__file__).parent.parent))
from networks import NETWORKS

pytestmark = pytest.mark.mpi

HOSTS = {
    "one host": lambda comm: comm.Split(0, comm.rank),
    "two hosts, by turns": lambda comm: comm.Split(comm.rank % 2, comm.rank),
    "two hosts, the other way round": lambda comm: comm.Split(comm.rank > 1, -comm.rank),
    "one host each": lambda comm: comm.Split(comm.rank, 0),
}


@pytest.fixture(params=HOSTS)
def hosts(request, monkeypatch):
    monkeypatch.setattr(segments, "split_by_host", HOSTS[request.param])
    return request.param


def node_of(comm, graph, exchange):
    network = NETWORKS.get(graph, lambda n: build_network(graph, None, n))(comm.size)
    node = Node(comm, network.row(comm.rank), EXCHANGES[exchange])
    if graph in NETWORKS:
        node.mix_by(("pull", "push"))
    return node


def mixed(comm, graph, exchange, steps, pause=0.0):
    """Return the results of many exchanges; ranks pause at random, so that some run ahead."""
    random, lazy = np.random.default_rng(7), np.random.default_rng(comm.rank)
    node = node_of(comm, graph, exchange)
    results = []
    for t in range(1, steps + 1):
        node.iteration = t
        x, s = random.standard_normal((2, comm.size, 2, 50))[:, comm.rank]
        pending = node.mix(x) if t % 5 == 0 else node.mix(x, s)
        time.sleep(pause * lazy.random())
        results += [result.wait() for result in pending]
        if t % 7 == 0:
            time.sleep(pause * lazy.random())
            results += node.mix.each(s).wait().values()
    node.free()
    return b"".join(result.tobytes() for result in results)


def test_all_hosts_give_the_bits_of_messages(comm, hosts):
    expected = mixed(comm, "er:p=0.7", "neighbor", 21)
    assert mixed(comm, "er:p=0.7", "shared", 21, pause=0.002) == expected


@pytest.mark.parametrize("graph", NETWORKS)
def test_directed_and_changing_graphs(comm, graph, monkeypatch):
    """A rank may run ahead of those that hear it, but not so far that it overwrites a slot."""
    for hosts in ("one host", "two hosts, by turns"):
        monkeypatch.setattr(segments, "split_by_host", HOSTS[hosts])
        expected = mixed(comm, graph, "neighbor", 12)
        assert mixed(comm, graph, "shared", 12, pause=0.004) == expected, hosts


def test_without_persistent_collectives_messages_do(comm, hosts, monkeypatch):
    monkeypatch.setattr(shared.Remote, "_collectives", lambda self, sends: [])
    assert mixed(comm, "er:p=0.7", "shared", 12) == mixed(comm, "er:p=0.7", "neighbor", 12)


def test_vectors_of_any_layout(comm):
    node = node_of(comm, "complete", "shared")
    for t in range(1, 5):
        node.iteration = t
        plain = np.arange(12.0).reshape(3, 4) * t
        np.testing.assert_allclose(node.mix(np.asfortranarray(plain)).wait(), plain)
        node.iteration = t
        np.testing.assert_allclose(node.mix(plain.astype(np.float32)).wait(), plain)
    node.free()


def test_the_watchdog_sees_who_has_not_published(comm):
    node = node_of(comm, "complete", "shared")
    z = np.ones((1, 3))
    for t in (1, 2):
        node.iteration = t
        node.mix(z).wait()
    (plan,) = node.plans
    node.iteration = 3
    late = comm.size - 1
    comm.Barrier()
    if comm.rank != late:
        (pending,) = node.mix(z)
    comm.Barrier()
    assert plan.silent() == ([late] if comm.rank != late else [])
    comm.Barrier()
    if comm.rank == late:
        (pending,) = node.mix(z)
    pending.wait()
    assert plan.silent() == []
    node.free()


def test_too_little_memory_is_one_error_on_all_ranks(comm, monkeypatch):
    def full(memory):
        if comm.rank == comm.size - 1:
            raise UserError("there is no room")

    monkeypatch.setattr(segments, "take_hold", full)
    node = node_of(comm, "ring", "shared")
    with pytest.raises(UserError, match="shared cannot be used here: there is no room"):
        choose_exchange(node, False, 160)
    assert choose_exchange(node, True, 160)["missing"] == {"shared": "there is no room"}
    node.exchange_class = EXCHANGES["shared"]
    with pytest.raises(UserError, match="no room"):
        node.mix(np.ones((1, 3)))
    monkeypatch.undo()
    assert unavailable_reason(node, EXCHANGES["shared"]) is None
    node.free()
