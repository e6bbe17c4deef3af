"""Options of graphs that would make far more nodes than there are ranks, or none that fit."""

import os
import resource
import time

import networkx as nx
import pytest

from mpi_gt.errors import UserError
from mpi_gt.graphs import families, parse_graph

TOO_LARGE = [
    "nx.hypercube_graph:n=30",
    "nx.hypercube_graph:n=1000000000",
    "nx.balanced_tree:r=10,h=9",
    "nx.full_rary_tree:r=3,n=1000000",
    "nx.grid_graph:dim=[500,500,500]",
    "nx.dorogovtsev_goltsev_mendes_graph:n=40",
]


@pytest.mark.parametrize("spec", TOO_LARGE)
def test_a_graph_of_networkx_far_too_large_is_refused_before_it_is_built(spec):
    limit, factory = resource.getrlimit(resource.RLIMIT_AS), nx.Graph.node_dict_factory
    began = time.monotonic()
    with pytest.raises(UserError, match=r"1000 nodes|too much"):
        parse_graph(spec)(4)
    assert time.monotonic() - began < 20
    assert resource.getrlimit(resource.RLIMIT_AS) == limit
    assert nx.Graph.node_dict_factory is factory


@pytest.mark.parametrize(
    ("spec", "n"), [("nx.hypercube_graph:n=4", 16), ("nx.balanced_tree:r=3,h=2", 13)]
)
def test_one_that_fits_is_built(spec, n):
    graph = parse_graph(spec)(n)
    assert sorted(graph) == list(range(n))
    assert type(graph._node) is dict


@pytest.mark.parametrize(("d", "n"), [("1e12", 2), ("2", 2), ("-1", 4), ("4", 4), ("1", 1)])
def test_a_random_regular_graph_takes_degrees_below_n(d, n):
    with pytest.raises(UserError, match=f"d must be in \\[0, {n}\\)"):
        parse_graph(f"random-regular:d={d}")(n)


def test_small_random_regular_graphs():
    assert parse_graph("random-regular:d=1")(2).number_of_edges() == 1
    assert parse_graph("random-regular")(1).number_of_edges() == 0
    with pytest.raises(UserError, match="connected"):
        parse_graph("random-regular:d=0")(2)


@pytest.mark.parametrize("text", ["{[], 1}", "-" * 400 + "1", "(" * 150])
def test_an_option_that_is_no_literal_is_text(text):
    with pytest.raises(UserError, match=r"nx\.path_graph"):
        families.from_networkx("path_graph", {"n": text}, 4)


def test_no_function_that_reads_or_writes_files_is_a_generator(tmp_path):
    """A pipe would block, and a device such as /dev/zero never end."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("read_edgelist", "read_gml", "write_edgelist"):
        with pytest.raises(UserError, match="has no generator"):
            families.from_networkx(name, {"path": str(tmp_path / "pipe")}, 4)
