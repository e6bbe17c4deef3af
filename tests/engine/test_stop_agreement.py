"""All ranks agree where to stop: Checkpointers of all nodes in one process, with real headers."""

from types import SimpleNamespace

import pytest
from networks import NETWORKS

from mpi_gt.config import RunConfig
from mpi_gt.engine.checkpointer import Checkpointer
from mpi_gt.engine.stop import StopRequest
from mpi_gt.graphs import build_network

NEVER = 2**63 - 1
LAST = 10**6


def stops(arcs, proposer, every=1, asked=20):
    """Let one node be asked before a step; return where each node stops, and by when it knew."""
    nodes = []
    for rank in range(arcs.nodes):
        row = arcs.row(rank)
        fields = {"nodes": arcs.nodes, "turns": row.turns, "reach": row.reach, "row": row}
        nodes.append(SimpleNamespace(rank=rank, is_root=False, stop_at=NEVER, due=0, **fields))
    config = RunConfig.of({"n": arcs.nodes, "iterations": LAST})
    asking = [
        Checkpointer(config, node, config.data_dir or "", "", None, StopRequest()) for node in nodes
    ]
    for each in asking:
        each.begin(LAST, every)
    asking[proposer]._stop.requested = True
    knew = [LAST] * len(nodes)
    t = asked
    while t < LAST and any(t <= node.stop_at >> 1 for node in nodes):
        asking[proposer].poll_stop(t)
        if t % every == 0:
            sent = [node.stop_at for node in nodes]
            for node in nodes:
                sources = node.row.layers[node.turns.at(t)].sources
                node.stop_at = min([node.stop_at, *(sent[j] for j in sources)])
        knew = [
            min(at, t if node.stop_at < NEVER else LAST)
            for at, node in zip(knew, nodes, strict=True)
        ]
        if all(node.stop_at < NEVER for node in nodes):
            break
        t += 1
    return [node.stop_at >> 1 for node in nodes], knew


def assert_agreed(arcs, proposer, every=1):
    at, knew = stops(arcs, proposer, every)
    assert len(set(at)) == 1
    assert max(knew) < at[0]
    return at[0]


def test_64_ranks_of_a_complete_graph_stop_within_three_iterations():
    arcs = build_network("complete", None, 64).arcs
    assert assert_agreed(arcs, 63) - 20 <= 3


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("spec", ["ring", "path", "star", "er:p=0.3", "one-peer-exponential"])
def test_graphs_stop_within_their_diameter(spec, every):
    network = build_network(spec, None, 12)
    layers = len(network.arcs.layers)
    for proposer in (0, 5, 11):
        at = assert_agreed(network.arcs, proposer, every)
        assert at - 20 <= network.diameter()[0] * every * layers


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_directed_and_changing_networks_agree(name, every):
    arcs = NETWORKS[name](7)
    for proposer in range(7):
        assert_agreed(arcs, proposer, every)


def test_layers_that_an_interval_skips_do_not_count():
    """With exchanges every 2 of 4 layers, only two rings that go on by 1 are used, not the rest."""
    ring, complete = (build_network(spec, None, 9).arcs.layers[0] for spec in ("ring", "complete"))
    arcs = type(NETWORKS["digraph"](9))(
        (complete, ring, complete, ring), NETWORKS["one-peer"](9).turns
    )
    assert arcs.turns.layers == 4
    assert arcs.reach == 1
    assert_agreed(arcs, 4, every=2)
