import sys

import networkx as nx
import numpy as np
import pytest
from support import skip_or_fail

from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.graphs import WEIGHTS, build_network, rho
from mpi_gt.graphs.families import UNDIRECTED


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 16, 17])
@pytest.mark.parametrize("name", UNDIRECTED)
def test_every_graph_has_n_nodes_and_a_valid_matrix(name, n):
    if name == "hypercube" and n & (n - 1):
        with pytest.raises(UserError, match="power of two"):
            build_network(name, None, n)
        return
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
        ("er:p=0.001", "none of 1000"),
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


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("graph", ["ring", "star", "er:p=0.5", "barbell", "complete"])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_every_rule_gives_a_valid_matrix(graph, weights, n):
    if weights == "fdla":
        needs_cvxpy()
    network = build_network(graph, weights, n)
    matrix = network.matrix
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    off = ~nx.to_numpy_array(network.graph, nodelist=range(n)).astype(bool) & ~np.eye(n, dtype=bool)
    assert not matrix[off].any()
    assert rho(matrix) < 1


def needs_cvxpy():
    try:
        import cvxpy  # noqa: F401
    except ImportError:
        skip_or_fail("cvxpy is not installed: pip install 'mpi-gt[fdla]'")


def test_rules_by_hand():
    """On a star of 4 nodes: Laplacian spectrum 0, 1, 1, 4."""
    lazy = (np.eye(4) + build_network("star", "metropolis", 4).matrix) / 2
    np.testing.assert_allclose(build_network("star", "lazy-metropolis", 4).matrix, lazy)
    assert build_network("star", "max-degree", 4).matrix[0, 1] == pytest.approx(1 / 4)
    laplacian = build_network("star", "laplacian", 4).matrix
    assert laplacian[0, 1] == pytest.approx(2 / 5)
    assert laplacian[0, 0] == pytest.approx(-1 / 5)  # may be negative while rho_A < 1
    assert rho(laplacian) == pytest.approx(3 / 5)


def test_fdla_is_the_fastest_of_all_rules():
    needs_cvxpy()
    for graph in ("path", "barbell", "er:p=0.4,seed=2"):
        radius = {name: rho(build_network(graph, name, 8).matrix) for name in WEIGHTS}
        assert radius["fdla"] <= min(radius.values()) + 1e-7


def test_fdla_without_cvxpy_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(UserError, match="pip install"):
        build_network("ring", "fdla", 4)


def test_shapes_of_the_families():
    def degrees(spec, n):
        return sorted({d for _, d in build_network(spec, None, n).graph.degree})

    assert degrees("grid", 16) == [2, 3, 4]
    assert degrees("torus", 16) == [4]
    assert degrees("torus:rows=1", 7) == [2]
    assert degrees("hypercube", 16) == [4]
    assert degrees("exponential", 16) == [7]  # 1, 2, 4, 8 both ways, 8 being its own opposite
    assert degrees("random-regular", 16) == [3]
    assert degrees("random-regular:d=5", 16) == [5]
    assert degrees("tree", 7) == [1, 2, 3]
    assert degrees("tree:children=15", 16) == [1, 15]
    assert build_network("barbell", None, 9).graph.number_of_edges() == 2 * 6 + 2
    assert build_network("watts-strogatz:k=4,p=0", None, 9).graph.number_of_edges() == 18
    assert build_network("barabasi-albert:m=3", None, 10).graph.number_of_edges() == 3 * 7


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("grid:rows=3", "does not divide 8"),
        ("random-regular:d=8", "graph random-regular"),
        ("random-regular:d=9", "graph random-regular"),
        ("barabasi-albert:m=8", "graph barabasi-albert"),
        ("watts-strogatz:k=9", "k must be"),
        ("watts-strogatz:p=2", "p in"),
        ("tree:children=0", "children"),
        ("nx.nothing_graph", "no generator"),
        ("nx.petersen_graph", "10 nodes, but there are 8"),
        ("nx.cycle_graph:m=3", "no option 'm'"),
        ("nx.gnp_random_graph:p=0.01,directed=True", "none of 1000"),
        ("nx.empty_graph", "not connected"),
        ("nx.gnp_random_graph", "nx.gnp_random_graph"),
        ("nx.Graph", "no generator"),
        ("nx.diameter", "nx.diameter"),
    ],
)
def test_bad_families(spec, message):
    with pytest.raises(UserError, match=message):
        build_network(spec, None, 8)


def test_any_generator_of_networkx():
    circulant = build_network("nx.circulant_graph:offsets=[1,3]", None, 12)
    assert nx.is_isomorphic(circulant.graph, nx.circulant_graph(12, [1, 3]))
    wheel = build_network("nx.wheel_graph", None, 9)
    assert nx.is_isomorphic(wheel.graph, nx.wheel_graph(9))
    grid = build_network("nx.grid_2d_graph:m=3,n=3", None, 9)  # nodes are pairs
    assert sorted(grid.graph) == list(range(9))
    same = [build_network("nx.gnp_random_graph:p=0.5", None, 9).graph for _ in range(2)]
    assert nx.utils.graphs_equal(*same)  # the seed is 0 unless given


def test_graphml(tmp_path):
    file = tmp_path / "graph.graphml"
    nx.write_graphml(nx.relabel_nodes(nx.cycle_graph(4), "abcd".__getitem__), file)
    assert nx.is_isomorphic(build_network(str(file), None, 4).graph, nx.cycle_graph(4))
    nx.write_graphml(nx.path_graph(4), file)
    assert nx.utils.graphs_equal(build_network(str(file), None, 4).graph, nx.path_graph(4))
    with pytest.raises(UserError, match="4 nodes, but there are 5"):
        build_network(str(file), None, 5)
    nx.write_graphml(nx.cycle_graph(4, create_using=nx.DiGraph), file)
    assert build_network(str(file), None, 4).facts()["edge_list"] == "0>1 1>2 2>3 3>0"
    file.write_text("<graphml")
    with pytest.raises(UserError, match="GraphML"):
        build_network(str(file), None, 4)


def test_weights_from_csv(tmp_path):
    file = tmp_path / "weights.csv"
    matrix = build_network("ring", "laplacian", 5).matrix
    np.savetxt(file, matrix, delimiter=",")
    np.testing.assert_allclose(build_network("ring", str(file), 5).matrix, matrix, atol=1e-15)
    file.write_text("1,0\n0,x\n")
    with pytest.raises(UserError, match="table of numbers"):
        build_network(None, str(file), 2)


def test_unknown_rule_suggests_the_nearest():
    with pytest.raises(UserError, match="did you mean 'metropolis'"):
        build_network("ring", "metropolys", 4)


@pytest.mark.figures
def test_graph_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["graph", "ring", "-n", "16", "--plot", "--out", "pictures"]) == 0
    text = capsys.readouterr().out
    for expected in ("16", "diameter", "8", "rho_A", "0.949253021674", "spectral gap"):
        assert expected in text
    picture = tmp_path / "pictures" / "graph-ring-16.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["graph", "star", "-n", "5", "--plot", "star.png", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "star.png").exists()
    for bad in (
        "ring -n 0",
        "ring -n x",
        "ring",
        "rung -n 3",
        "ring -n 3 --plot a.nope",
        "ring -n 3 --colour",
    ):
        assert main(["graph", *bad.split()]) == 2
        assert capsys.readouterr().err.count("mpi-gt: error:") == 1


def test_the_facts_list_the_edges_of_what_can_be_drawn():
    network = build_network("er:p=0.5", None, 7)
    pairs = [tuple(map(int, pair.split("-"))) for pair in network.facts()["edge_list"].split()]
    assert {frozenset(pair) for pair in pairs} == {frozenset(edge) for edge in network.graph.edges}
    assert len(pairs) == network.facts()["edges"]
    assert build_network("ring", None, 1).facts().get("edge_list") == ""
    assert "edge_list" not in build_network("complete", None, 100).facts()
