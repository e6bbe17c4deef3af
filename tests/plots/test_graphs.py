"""Pictures of graphs, and the command that makes them."""

import pytest

from mpi_gt.cli.main import main


@pytest.mark.figures
@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["digraph:arcs=3", "-n", "6"], "graph-digraph-arcs-3-6.png"),
        (["one-peer-exponential", "-n", "8"], "graph-one-peer-exponential-8.png"),
        (["complete", "-n", "18", "--matchings"], "graph-complete--matchings-all-18.png"),
    ],
)
def test_arrows_and_layers_are_drawn(tmp_path, words, name):
    assert main(["graph", *words, "--plot", "--out", str(tmp_path), "--quiet"]) == 0
    (picture,) = tmp_path.iterdir()
    assert picture.name == name
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["digraph", "-n", "8"], ["arcs", "targets", "sources", "rho_pull", "rho_push"]),
        (["one-peer-hypercube", "-n", "8"], ["3, in turn", "of a period of 3", "layer"]),
        (["er", "-n", "8", "--matchings", "random:seed=2"], ["random:seed=2", "mean square"]),
        (["ring", "-n", "8"], ["edges", "degree", "spectral gap"]),
    ],
)
def test_the_table_names_kinds_and_layers(capsys, words, expected):
    assert main(["graph", *words]) == 0
    shown = capsys.readouterr().out
    for word in expected:
        assert word in shown
