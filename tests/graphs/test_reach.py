"""The reach of a graph beside the diameter that scipy and networkx find."""

import networkx as nx
import numpy as np
import pytest
from networks import NETWORKS

from mpi_gt.graphs import build_network, reach
from mpi_gt.graphs.reach import reach_of


@pytest.mark.parametrize(
    "spec", ["ring", "path", "complete", "star", "er:p=0.3", "one-peer-exponential"]
)
@pytest.mark.parametrize("n", [2, 5, 16, 33])
def test_the_reach_is_the_diameter(spec, n):
    network = build_network(spec, None, n)
    assert network.arcs.reach == network.diameter()[0]
    assert network.row(n - 1).reach == network.arcs.reach


@pytest.mark.parametrize("name", NETWORKS)
def test_all_layers_count_together_and_directions_too(name):
    arcs = NETWORKS[name](7)
    graph = nx.DiGraph()
    for layer in arcs.layers:
        graph.add_edges_from(zip(layer.sources.tolist(), layer.receivers.tolist(), strict=True))
    assert arcs.reach == nx.diameter(graph)


@pytest.mark.parametrize("spec", ["ring", "path", "complete", "er:p=0.3"])
def test_of_a_large_graph_it_is_at_most_twice_the_diameter(spec, monkeypatch):
    network = build_network(spec, None, 40)
    length, _ = network.diameter()
    monkeypatch.setattr(reach, "WORK", 0)
    assert length <= network.arcs.reach <= 2 * length


def test_a_node_alone_and_nodes_without_paths():
    none = np.zeros(0, np.int64)
    assert reach_of(1, none, none) == 1
    assert reach_of(3, np.array([0, 1]), np.array([1, 0])) == 3
    assert reach_of(2, np.array([0]), np.array([1])) == 2


def test_ten_thousand_nodes_take_no_time():
    nodes = np.arange(10_000)
    tails, heads = np.concatenate([nodes, nodes]), np.concatenate([nodes + 1, nodes * 7 + 1])
    assert 1 < reach_of(10_000, tails, heads % 10_000) < 40
