"""Directed graphs: their families, files, weights, and what is refused."""

import networkx as nx
import numpy as np
import pytest

from mpi_gt.errors import UserError
from mpi_gt.graphs import build_network
from mpi_gt.graphs.directed import DIRECTED
from mpi_gt.graphs.files import edge_list

SPECS = [*DIRECTED, "digraph:arcs=0", "nx.gnp_random_graph:p=0.5,directed=True"]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("spec", SPECS)
def test_a_directed_graph_has_pull_and_push_weights(spec, n):
    network = build_network(spec, None, n)
    (layer,) = network.arcs.layers
    graph = network.graph if network.directed else nx.DiGraph(network.graph)
    assert nx.is_strongly_connected(graph)
    assert nx.number_of_selfloops(graph) == 0
    pull, push = layer.matrix("pull"), layer.matrix("push")
    for i in range(n):
        heard, told = sorted(graph.predecessors(i)), sorted(graph.successors(i))
        assert list(np.nonzero(pull[i])[0]) == sorted([*heard, i])
        np.testing.assert_array_equal(pull[i][[*heard, i]], 1 / (1 + len(heard)))
        np.testing.assert_array_equal(push[[*told, i], i], 1 / (1 + len(told)))
    np.testing.assert_allclose(pull.sum(axis=1), 1, atol=1e-15)
    np.testing.assert_allclose(push.sum(axis=0), 1, atol=1e-15)
    doubly = np.allclose(pull.sum(axis=0), 1, atol=1e-12)
    assert ("A" in network.kinds) == doubly
    if doubly:
        np.testing.assert_array_equal(layer.matrix("A"), pull)


def test_rows_know_their_sources_targets_and_places():
    network = build_network("digraph:arcs=9,seed=4", None, 7)
    rows = [network.row(node).layers[0] for node in range(7)]
    for i, row in enumerate(rows):
        assert list(row.sources) == sorted(network.graph.predecessors(i))
        assert list(row.targets) == sorted(network.graph.successors(i))
        assert [
            rows[j].sources[place] for j, place in zip(row.targets, row.places, strict=True)
        ] == ([i] * len(row.targets))
        pull = network.arcs.layers[0].matrix("pull")
        np.testing.assert_array_equal(row.weights["pull"], pull[i][list(row.sources)])


def test_the_families_by_hand():
    def arcs(spec, n):
        return build_network(spec, None, n).facts()["edge_list"]

    assert arcs("directed-ring", 4) == "0>1 1>2 2>3 3>0"
    assert arcs("directed-exponential", 5) == " ".join(
        f"{i}>{j}" for i in range(5) for j in sorted((i + step) % 5 for step in (1, 2, 4))
    )
    assert len(arcs("digraph:arcs=6", 8).split()) == 14
    assert len(arcs("digraph:arcs=7", 4).split()) == 11
    assert arcs("digraph:arcs=8", 4) == arcs("complete", 4)
    assert arcs("digraph:seed=1", 9) == arcs("digraph:seed=1", 9) != arcs("digraph:seed=2", 9)


def test_rates_are_those_of_dense_matrices():
    network = build_network("digraph:arcs=6,seed=0", None, 8)
    for kind in ("pull", "push"):
        moduli = np.sort(np.abs(np.linalg.eigvals(network.arcs.layers[0].matrix(kind))))
        assert network.rates[kind] == pytest.approx(moduli[-2], rel=1e-12)
        assert network.facts()[f"rho_{kind}"] == network.rates[kind]
    ring = build_network("directed-ring", None, 6)
    assert ring.rates == {"A": pytest.approx(np.cos(np.pi / 6), rel=1e-12)}


def test_a_symmetric_digraph_with_equal_degrees_is_an_undirected_graph():
    network = build_network("directed-ring", None, 2)
    assert not network.directed
    assert network.facts()["edge_list"] == "0-1"


def test_an_edge_file_with_arrows(tmp_path):
    file = tmp_path / "arcs.txt"
    file.write_text("# arcs\n0 -> 1\n1->2  # no spaces\n2 -> 0\n\n0 -> 2\n")
    assert build_network(str(file), None, 3).facts()["edge_list"] == "0>1 0>2 1>2 2>0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 -> 1\n1 -> 2\n", "no path leads from node 1 to node 0"),
        ("0 -> 1\n1 -> 0\n2 -> 0\n", "no path leads from node 0 to node 2"),
        ("0 -> 1\n1 2\n", "line 2: the file has lines `i j` and lines `i -> j`"),
        ("0 -> 1 -> 2\n", "line 1: expected two node numbers"),
        ("0 ->\n", "line 1: expected two node numbers"),
        ("-> 1\n", "line 1"),
        ("0 -> x\n", "line 1"),
        ("1 -> 1\n", "cannot be an edge"),
        ("0 -> 1\n1 -> 0\n", "2 nodes, but there are 3"),
    ],
)
def test_bad_arcs(tmp_path, text, message):
    file = tmp_path / "arcs.txt"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        build_network(str(file), None, 3)


@pytest.mark.parametrize(
    ("spec", "weights", "matchings", "message"),
    [
        ("digraph:arcs=-1", None, None, r"arcs must be in \[0, 24\]"),
        ("digraph:arcs=25", None, None, r"arcs must be in \[0, 24\]"),
        ("digraph:seed=-1", None, None, "seed must be"),
        ("digraph:arcs=x", None, None, "whole number"),
        ("directed-ring:p=1", None, None, "no option 'p'"),
        ("digraph", "metropolis", None, "--weights metropolis is for undirected graphs"),
        ("digraph", None, "all", "--matchings is for undirected graphs"),
        ("nx.path_graph:create_using=1", None, None, "nx.path_graph"),
    ],
)
def test_what_a_directed_graph_cannot_have(spec, weights, matchings, message):
    with pytest.raises(UserError, match=message):
        build_network(spec, weights, 6, matchings)


def test_a_static_directed_graph_has_no_symmetric_matrix():
    with pytest.raises(UserError, match="no doubly stochastic"):
        _ = build_network("digraph", None, 8).matrix
    assert build_network("directed-ring", None, 4).matrix[1, 0] == 0.5


def test_a_directed_graph_of_networkx_becomes_a_file(tmp_path):
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])
    file = tmp_path / "graph.edges"
    file.write_text(edge_list(graph))
    assert nx.utils.graphs_equal(build_network(str(file), None, 3).graph, graph)
