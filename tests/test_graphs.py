import networkx as nx
import numpy as np
import pytest

from mpi_gt.errors import UserError
from mpi_gt.graphs import GRAPHS, build_network, rho


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_has_n_nodes_and_a_valid_matrix(name, n):
    network = build_network(name, None, n)
    matrix = network.matrix
    assert sorted(network.graph) == list(range(n))
    assert nx.number_of_selfloops(network.graph) == 0
    assert nx.is_connected(network.graph)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-14)
    assert rho(matrix) < 1
    rows = [network.row(node) for node in range(n)]
    for i, row in enumerate(rows):
        assert list(row.neighbours) == sorted(network.graph.neighbors(i))
        rebuilt = np.zeros(n)
        rebuilt[list(row.neighbours)] = row.weights
        rebuilt[i] = row.own
        np.testing.assert_array_equal(rebuilt, matrix[i])


def test_metropolis_by_hand():
    # a path 0 - 1 - 2: degrees 1, 2, 1
    expected = [[2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 3, 2 / 3]]
    np.testing.assert_allclose(build_network("path", None, 3).matrix, expected, atol=1e-15)


def test_er_takes_networkx_s_graph_where_it_is_connected():
    expected = nx.gnp_random_graph(16, 0.7, seed=5)
    assert nx.utils.graphs_equal(build_network("er:p=0.7,seed=5", None, 16).graph, expected)


def test_er_is_drawn_again_until_connected():
    assert not nx.is_connected(nx.gnp_random_graph(16, 0.15, seed=0))
    assert nx.is_connected(build_network("er:p=0.15,seed=0", None, 16).graph)


def test_edge_list(tmp_path):
    file = tmp_path / "ring.txt"
    file.write_text("# a ring\n0 1\n1 2  # both ways\n2 1\n\n2 3\n3 0\n")
    assert nx.utils.graphs_equal(build_network(str(file), None, 4).graph, nx.cycle_graph(4))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n1 2\n2 x\n", "line 3: expected two node numbers"),
        ("0 1\n1 2 3\n", "line 2"),
        ("0 1\n-1 2\n", "line 2"),
        ("0 1\n1 1\n", "line 2"),
        ("0 1\n1 2\n", "3 nodes, but there are 4"),
        ("0 1\n1 2\n2 3\n3 4\n", "5 nodes, but there are 4"),
        ("# nothing\n", "lists no edges"),
        ("0 1\n2 3\n", "no path joins nodes 0 and 2"),
        ("0 1\n1 3\n", "not connected"),
    ],
)
def test_bad_edge_list(tmp_path, text, message):
    file = tmp_path / "edges.txt"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        build_network(str(file), None, 4)


def test_binary_file_is_no_edge_list(tmp_path):
    file = tmp_path / "edges.bin"
    file.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UserError, match="cannot read"):
        build_network(str(file), None, 4)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rung", "did you mean 'ring'"),
        ("er:p=0", "p must be in"),
        ("er:p=1.5", "p must be in"),
        ("er:p=nan", "p must be in"),
        ("er:q=1", "no option 'q'"),
        ("er:p=0.001", "none connected"),
        ("er:seed=-1", "seed"),
        ("ring:p=1", "no option 'p'"),
    ],
)
def test_bad_graph(spec, message):
    with pytest.raises(UserError, match=message):
        build_network(spec, None, 8)


def weights_file(tmp_path, matrix):
    file = tmp_path / "weights.npy"
    np.save(file, matrix)
    return str(file)


def test_given_weights_bring_their_graph(tmp_path):
    matrix = np.full((4, 4), 0.25)
    network = build_network(None, weights_file(tmp_path, matrix), 4)
    assert network.graph.number_of_edges() == 6
    np.testing.assert_array_equal(network.matrix, matrix)


def broken(change):
    matrix = build_network("ring", None, 5).matrix.copy()
    change(matrix)
    return matrix


def asymmetric(matrix):
    matrix[0, 1] += 0.1
    matrix[0, 0] -= 0.1


def off_the_graph(matrix):
    matrix[0, 2] = matrix[2, 0] = 0.1
    matrix[0, 0] -= 0.1
    matrix[2, 2] -= 0.1


def not_stochastic(matrix):
    matrix[3, 3] += 0.1


def not_finite(matrix):
    matrix[1, 2] = np.nan


def identity(matrix):
    matrix[:] = np.eye(5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (asymmetric, r"not symmetric, entry \(0, 1\)"),
        (off_the_graph, r"entry \(0, 2\) .* no such edge"),
        (not_stochastic, "row 3 sums to 1.1"),
        (not_finite, r"\[1, 2\] is nan"),
        (identity, "rho_A is 1"),
    ],
)
def test_bad_weights_name_the_entry(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        build_network("ring", weights_file(tmp_path, broken(change)), 5)


def test_weights_of_another_size(tmp_path):
    with pytest.raises(UserError, match=r"\(5, 5\), but 4 ranks"):
        build_network(None, weights_file(tmp_path, np.eye(5)), 4)


def test_weights_that_are_no_matrix(tmp_path):
    file = tmp_path / "weights.npy"
    file.write_text("no")
    with pytest.raises(UserError, match="cannot read"):
        build_network(None, str(file), 4)
    with pytest.raises(UserError, match="cannot read"):
        build_network(None, str(tmp_path / "absent.npy"), 4)
