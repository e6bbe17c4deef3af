"""Graphs that change: one-peer families, SPEC+SPEC, matchings, and the order of their layers."""

from functools import reduce

import numpy as np
import pytest

from mpi_gt.errors import UserError
from mpi_gt.graphs import build_network
from mpi_gt.graphs.network import Turns


def matrices(network, kind="A"):
    return [layer.matrix(kind) for layer in network.arcs.layers]


def product(network):
    return reduce(lambda done, layer: layer @ done, matrices(network))


@pytest.mark.parametrize("spec", ["one-peer-exponential", "one-peer-hypercube"])
@pytest.mark.parametrize("n", [2, 4, 8, 16, 64])
def test_the_layers_of_a_one_peer_graph_average_exactly(spec, n):
    network = build_network(spec, None, n)
    assert len(network.arcs.layers) == n.bit_length() - 1
    assert (product(network) == 1 / n).all()
    assert network.rates == {"A": 0.0}


@pytest.mark.parametrize("n", [1, 3, 5, 6, 16])
def test_one_peer_exponential_hears_one_node_at_powers_of_two(n):
    network = build_network("one-peer-exponential", None, n)
    assert len(network.arcs.layers) == max(1, (n - 1).bit_length())
    for k, layer in enumerate(network.arcs.layers):
        for node in range(n):
            row = layer.row(node)
            assert row.sources == (() if n == 1 else ((node - 2**k) % n,))
            assert all(row.own[kind] == (1.0 if n == 1 else 0.5) for kind in ("A", "pull", "push"))
    assert 0 <= network.rates["A"] < 1


@pytest.mark.parametrize("spec", ["er:p=0.7", "ring", "star", "complete", "tree", "torus", "path"])
@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_matchings_are_matchings_and_cover_every_edge_once(spec, n):
    graph = build_network(spec, None, n)
    network = build_network(spec, None, n, "all")
    layers = [shape_edges(shape) for shape in network.shapes]
    assert all(shape.out_degrees.max() <= 1 for shape in network.shapes)
    assert sorted(edge for layer in layers for edge in layer) == shape_edges(graph.union)
    for matrix in matrices(network):
        np.testing.assert_array_equal(matrix, matrix.T)
        assert set(matrix.ravel()) <= {0.0, 0.5, 1.0}
        np.testing.assert_array_equal(matrix.sum(axis=1), 1)


def shape_edges(shape):
    return sorted(
        (i, j)
        for i, j in zip(shape.sources.tolist(), shape.receivers.tolist(), strict=True)
        if i < j
    )


def test_an_edge_goes_to_the_first_matching_that_is_free():
    network = build_network("ring", None, 5, "all")
    assert [layer["edge_list"] for layer in network.facts()["layers"]] == (
        ["0-1 2-3", "0-4 1-2", "3-4"]
    )


@pytest.mark.parametrize(
    "spec", ["ring+star", "er:p=0.5,seed=1+one-peer-exponential", "path + directed-exponential"]
)
def test_graphs_that_take_turns_keep_their_weights(spec):
    network = build_network(spec, None, 6)
    parts = [build_network(part.strip(), None, 6) for part in spec.split("+")]
    expected = [matrix for part in parts for matrix in matrices(part)]
    for found, wanted in zip(matrices(network), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_allclose(found.sum(axis=0), 1, atol=1e-14)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-14)
    norm = np.linalg.norm(product(network) - 1 / 6, 2)
    assert network.rates["A"] == pytest.approx(norm ** (1 / len(expected)), rel=1e-10)


def test_layers_need_to_be_connected_only_together(tmp_path):
    for name, text in (("even.txt", "0 1\n2 3\n"), ("odd.txt", "1 2\n0 3\n")):
        (tmp_path / name).write_text(text)
    even, odd = tmp_path / "even.txt", tmp_path / "odd.txt"
    network = build_network(f"{even}+{odd}", None, 4)
    assert (product(network) == 1 / 4).all()
    with pytest.raises(
        UserError, match=r"all 2 layers is not connected: no path joins nodes 0 and 2"
    ):
        build_network(f"{even}+{even}", None, 4)


def test_a_file_may_have_a_plus_in_its_name(tmp_path):
    file = tmp_path / "a+b.txt"
    file.write_text("0 1\n1 2\n")
    assert not build_network(str(file), None, 3).changes


def test_one_that_only_sends_in_a_layer_is_named(tmp_path):
    (tmp_path / "one-way.txt").write_text("0 -> 1\n1 -> 2\n2 -> 0\n0 -> 3\n")
    with pytest.raises(UserError, match="in layer 1 of the graph node 3 hears but sends to nobody"):
        build_network(f"ring+{tmp_path / 'one-way.txt'}", None, 4)
    (tmp_path / "source.txt").write_text("3 -> 1\n1 -> 2\n2 -> 1\n")
    with pytest.raises(UserError, match="node 3 sends but hears nobody"):
        build_network(f"ring+{tmp_path / 'source.txt'}", None, 4)


@pytest.mark.parametrize(
    ("spec", "weights", "matchings", "message"),
    [
        ("ring+", None, None, "lacks a graph"),
        ("+ring", None, None, "lacks a graph"),
        ("ring++star", None, None, "lacks a graph"),
        ("ring+stair", None, None, "'stair' is neither a file nor a known graph"),
        ("one-peer-hypercube", None, None, "power of two"),
        ("one-peer-exponential", "laplacian", None, "--weights laplacian is for undirected"),
        ("ring+star", "w.npy", None, "cannot read|No such file|w.npy"),
        ("ring", "laplacian", "all", "--matchings takes no --weights"),
        ("ring+star", None, "all", "several layers already"),
        ("one-peer-exponential", None, "random", "several layers already"),
        ("ring", None, "some", "unknown matchings 'some'"),
        ("ring", None, "", "unknown matchings ''"),
        ("ring", None, "all:seed=1", "has no option 'seed'"),
        ("ring", None, "random:seed=-1", "seed must be in"),
        ("ring", None, "random:seed=1e30", "seed must be in"),
    ],
)
def test_bad_changing_graphs(spec, weights, matchings, message):
    with pytest.raises(UserError, match=message):
        build_network(spec, weights, 6, matchings)


def test_random_turns_are_fixed_by_the_seed_and_use_every_layer():
    draws = [[Turns(5, seed).at(t) for t in range(1, 400)] for seed in (3, 3, 4)]
    assert draws[0] == draws[1] != draws[2]
    counts = np.bincount(draws[0])
    assert len(counts) == 5
    assert counts.min() > 50  # 80 are expected
    assert [Turns(3).at(t) for t in range(1, 8)] == [0, 1, 2, 0, 1, 2, 0]


def test_random_matchings_have_a_rate_per_step():
    network = build_network("er:p=0.7", None, 10, "random:seed=3")
    assert network.arcs.turns == Turns(len(network.arcs.layers), 3)
    mean = np.mean([matrix.T @ matrix for matrix in matrices(network)], axis=0) - 1 / 10
    assert network.rates["A"] ** 2 == pytest.approx(np.linalg.norm(mean, 2), rel=1e-10)
    assert network.facts()["turns"] == "random:seed=3"


def test_the_digest_knows_all_layers_their_order_and_turns():
    def digest(*options):
        return build_network(*options).digest()

    networks = [
        ("ring", None, 8), ("directed-ring", None, 8), ("ring+star", None, 8),
        ("star+ring", None, 8), ("ring", None, 8, "all"), ("ring", None, 8, "random"),
        ("ring", None, 8, "random:seed=1"), ("one-peer-exponential", None, 8),
        ("one-peer-hypercube", None, 8), ("digraph", None, 8), ("digraph:seed=1", None, 8),
    ]  # fmt: skip
    digests = [digest(*each) for each in networks]
    assert len(set(digests)) == len(digests)
    assert digests == [digest(*each) for each in networks]
