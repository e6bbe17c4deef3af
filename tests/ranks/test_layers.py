"""Directed and changing graphs on real ranks: layers, arcs of one direction, three matrices."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from mpi_gt.comm.exchange import EXCHANGES
from mpi_gt.comm.node import Node
from mpi_gt.comm.stacked import StackedNode
from mpi_gt.comm.timing import fastest_exchange, unavailable_reason
from mpi_gt.engine.checkpointer import everywhere_at
from mpi_gt.errors import UserError
from mpi_gt.graphs.network import Row

sys.path.insert(0, str(Path(__file__).parent.parent))
from networks import NETWORKS, digraph, one_peer

pytestmark = pytest.mark.mpi

KINDS = ("pull", "push")


@pytest.fixture
def comm():
    made = MPI.COMM_WORLD.Dup()
    yield made
    made.Free()


def make(comm, arcs, exchange="neighbor", kinds=KINDS):
    node = Node(comm, arcs.row(comm.rank), EXCHANGES[exchange])
    node.mix_by(kinds)
    return node


def mixed(node, everyone, steps):
    """Return what `mix` of three vectors gives in each step."""
    made = []
    for node.iteration in range(1, steps + 1):
        pending = node.mix(*(everyone * node.iteration))
        made.append([each.wait() for each in pending])
    return np.array(made)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_all_exchanges_equal_stacked_on_layers(comm, random, name, dtype):
    arcs = NETWORKS[name](comm.size)
    everyone = random.standard_normal((3, comm.size, 2, 5)).astype(dtype)
    stacked = StackedNode(arcs, reproducible=True)
    stacked.mix_by(KINDS)
    expected = mixed(stacked, everyone, 7)[:, :, comm.rank]
    for exchange in EXCHANGES:
        node = make(comm, arcs, exchange)
        ours = mixed(node, everyone[:, comm.rank], 7)
        tolerance = 1e-14 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(ours, expected, atol=tolerance, err_msg=exchange)
        assert node.bytes_sent == stacked.bytes_sent[comm.rank]
        if exchange == "neighbor":
            first = ours
        assert ours.tobytes() == first.tobytes(), exchange
        node.free()


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_vectors_apart_come_from_the_sources_of_the_step(comm, exchange):
    node = make(comm, one_peer(comm.size), exchange)
    for node.iteration in range(1, 6):
        (each,) = node.mix.each(np.full((1, 3), float(comm.rank)))
        heard = each.wait()
        assert tuple(heard) == node.row.layers[node.layer].sources
        for source, vector in heard.items():
            np.testing.assert_array_equal(vector, np.full((1, 3), float(source)))
    node.free()


def test_the_topology_of_a_layer_is_its_arcs(comm):
    node = make(comm, digraph(comm.size))
    sources, targets, _ = node.graph_comm.Get_dist_neighbors()
    (row,) = node.row.layers
    assert (tuple(sources), tuple(targets)) == (row.sources, row.targets)
    node.free()


def test_an_arc_that_one_end_does_not_know_is_found_without_hanging(comm):
    arcs = digraph(comm.size)
    row = arcs.row(comm.rank)
    (layer,) = row.layers
    if comm.size < 3:
        return
    if comm.rank == 0:  # it has two targets, of which it forgets the last
        layer = replace(layer, targets=layer.targets[:-1], places=layer.places[:-1])
    with pytest.raises(UserError, match=r"nodes \d+ and \d+ disagree on the edge"):
        Node(comm, Row(comm.rank, (layer,)), EXCHANGES["neighbor"])
    layer = arcs.row(comm.rank).layers[0]
    if comm.rank == 0:
        wrong = {"pull": layer.weights["pull"], "push": layer.weights["push"] / 2}
        layer = replace(layer, weights=wrong)
    with pytest.raises(UserError, match=r"node \d+: its own weight and those of its targets"):
        Node(comm, Row(comm.rank, (layer,)), EXCHANGES["neighbor"])


def test_places_that_are_wrong_or_unknown(comm):
    arcs = digraph(comm.size)
    (layer,) = arcs.row(comm.rank).layers
    unknown = Row(comm.rank, (replace(layer, places=()),))
    node = Node(comm, unknown, EXCHANGES["rma"])
    assert node.row.layers == (layer,) or node.row.layers[0].places == layer.places
    node.free()
    if comm.size > 2:
        wrong = replace(layer, places=tuple(place + 1 for place in layer.places))
        with pytest.raises(UserError, match="disagree"):
            Node(comm, Row(comm.rank, (wrong,)), EXCHANGES["rma"])


def test_a_node_that_only_sends_is_refused_before_mpi_could_hang(comm):
    if comm.size < 2:
        return
    (layer,) = digraph(comm.size).row(comm.rank).layers
    empty = {kind: np.zeros(0) for kind in layer.weights}
    ends = {0: {"targets": (1,)}, 1: {"sources": (0,)}}.get(comm.rank, {})
    given = {"sources": (), "targets": (), "places": (), "weights": empty, **ends}
    with pytest.raises(UserError, match="node 0 only sends in a layer"):
        Node(comm, Row(comm.rank, (replace(layer, **given),)), EXCHANGES["neighbor"])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_stop_is_known_everywhere_at_the_iteration_that_is_named(comm, name):
    node = make(comm, NETWORKS[name](comm.size))
    known = everywhere_at(5, node.reach, node.turns, 1, 10**6)
    if comm.rank == comm.size - 1:
        node.stop_at = 2 * known
    for node.iteration in range(5, known):
        node.mix(np.ones((1, 4))).wait()
    assert node.stop_at == 2 * known
    node.free()


def test_timing_and_choosing_on_layers(comm):
    node = make(comm, NETWORKS["mixed"](comm.size))
    for name, exchange in EXCHANGES.items():
        assert unavailable_reason(node, exchange) is None, name
    chosen, times, _ = fastest_exchange(node, 160, rounds=1, count=1)
    assert chosen in times
    assert len(set(comm.allgather(chosen))) == 1
    node.free()
