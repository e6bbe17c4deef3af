"""Large graphs: no dense matrix, eigenvalues by Lanczos steps or factorization."""

import numpy as np
import pytest

from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.graphs import build_network, rho
from mpi_gt.graphs.checks import diameter
from mpi_gt.graphs.families import _lattice
from mpi_gt.graphs.lanczos import large_rho, largest_modulus
from mpi_gt.graphs.spectrum import sparse_matrix

N = 10_000


def dense_equal(monkeypatch, spec, rule, n=60):
    """Compare a graph built as a large one with the usual one."""
    usual = build_network(spec, rule, n)
    monkeypatch.setattr("mpi_gt.graphs.building.DENSE", 4)
    monkeypatch.setattr("mpi_gt.graphs.families.LARGE", 4)
    large = build_network(spec, rule, n)
    np.testing.assert_allclose(large.arcs.layers[0].matrix("A"), usual.matrix, atol=1e-15)
    assert large.facts()["edge_list"] == usual.facts()["edge_list"]


@pytest.mark.parametrize("rule", ["metropolis", "lazy-metropolis", "max-degree"])
@pytest.mark.parametrize(
    "spec", ["ring", "path", "star", "grid", "torus", "torus:rows=2", "exponential", "tree"]
)
def test_sparse_weights_are_the_dense_ones(monkeypatch, spec, rule):
    dense_equal(monkeypatch, spec, rule)


def test_a_large_hypercube_is_the_small_one(monkeypatch):
    dense_equal(monkeypatch, "hypercube", None, 64)


@pytest.mark.parametrize("spec", ["ring", "torus", "star", "random-regular", "er:p=0.1", "tree"])
def test_rho_without_a_dense_matrix(spec):
    network = build_network(spec, None, 300)
    found = large_rho(sparse_matrix(network.arcs.layers[0], "A"))
    assert 1 - found == pytest.approx(1 - rho(network.matrix), rel=1e-5)


def test_rho_of_a_negative_eigenvalue():
    network = build_network("nx.complete_bipartite_graph:n1=30,n2=30", "laplacian", 60)
    found = large_rho(sparse_matrix(network.arcs.layers[0], "A"))
    assert found == pytest.approx(rho(network.matrix), rel=1e-6)


def test_rho_of_large_graphs_by_their_formulas():
    ring = build_network("ring", None, N)
    assert 1 - ring.rates["A"] == pytest.approx(2 / 3 * (1 - np.cos(2 * np.pi / N)), rel=1e-5)
    torus = build_network("torus", None, N)
    assert 1 - torus.rates["A"] == pytest.approx(2 / 5 * (1 - np.cos(2 * np.pi / 100)), rel=1e-5)
    star = build_network("star", None, N)
    assert 1 - star.rates["A"] == pytest.approx(1 / N, rel=1e-5)


def test_the_period_of_a_large_changing_graph(monkeypatch):
    options = (("one-peer-exponential", None, 100), ("er:p=0.2", None, 100, "random"))
    expected = [build_network(*each).rates["A"] for each in options]
    monkeypatch.setattr("mpi_gt.graphs.spectrum.DENSE", 10)
    assert [build_network(*each).rates["A"] for each in options] == pytest.approx(
        expected, rel=1e-4
    )


def test_lanczos_gives_up_where_it_does_not_settle():
    values = np.cos(np.pi * np.arange(1, 20001) / 20001)
    assert largest_modulus(lambda z: values * z, 20000) is None
    assert largest_modulus(lambda z: 0 * z, 50) == 0


def test_the_diameter_of_a_large_graph_is_a_lower_bound_or_exact_for_trees():
    assert build_network("ring", None, N).diameter() == (N // 2, False)
    assert build_network("path", None, N).diameter() == (N - 1, True)
    assert diameter(build_network("torus", None, 36).union) == (6, True)


@pytest.mark.parametrize(
    ("spec", "weights", "message"),
    [
        ("complete", None, "too many to be built"),
        ("er:p=0.7", None, "too many to be built"),
        ("barbell", None, "too many to be built"),
        ("ring", "laplacian", "at most 4096 nodes"),
        ("ring", "fdla", "at most 4096 nodes"),
    ],
)
def test_what_a_large_graph_cannot_be(spec, weights, message):
    with pytest.raises(UserError, match=message):
        build_network(spec, weights, N)


def test_a_sparse_random_graph_of_many_nodes():
    network = build_network("er:p=0.002", None, N)
    assert 0.7 * 0.001 * N * N < network.union.edges < 1.3 * 0.001 * N * N


@pytest.mark.figures
def test_a_huge_graph_is_described_but_not_drawn(capsys, tmp_path):
    assert main(["graph", "torus", "-n", str(N), "--plot", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "at least" in shown
    assert "no picture" in shown
    assert not list(tmp_path.iterdir())


def test_lattices_have_the_edges_of_networkx(monkeypatch):
    for rows, n in ((1, 5), (2, 8), (3, 12), (1, 2), (2, 4)):
        for periodic in (False, True):
            usual = {
                frozenset(edge) for edge in _lattice(n, rows, periodic).edges if len({*edge}) > 1
            }
            monkeypatch.setattr("mpi_gt.graphs.families.LARGE", 0)
            shape = _lattice(n, rows, periodic)
            monkeypatch.undo()
            pairs = zip(shape.sources.tolist(), shape.receivers.tolist(), strict=True)
            assert {frozenset(pair) for pair in pairs} == usual
