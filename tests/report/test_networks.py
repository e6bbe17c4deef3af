"""The figure of a graph on the report page."""

import json

import pytest

from mpi_gt.graphs import build_network
from mpi_gt.report.networks import draw_graph


def drawn(*options):
    facts = build_network(*options).facts()
    figure = draw_graph(json.loads(json.dumps(facts)))
    json.dumps(figure, allow_nan=False)
    return facts, figure


def test_an_undirected_graph_has_lines():
    _, figure = drawn("star", None, 5)
    lines, nodes = figure["data"]
    assert lines["mode"] == "lines"
    assert lines["x"].count(None) == 4
    assert nodes["customdata"] == [4, 1, 1, 1, 1]
    assert not figure["layout"]["showlegend"]


def test_arcs_are_arrows_that_end_before_the_node():
    _, figure = drawn("digraph:arcs=3", None, 6)
    arrows, nodes = figure["data"]
    assert arrows["marker"]["symbol"] == "arrow"
    assert arrows["marker"]["size"] == [0, 9, 0] * 9
    assert sum(nodes["customdata"]) == 9  # targets
    ends = set(zip(nodes["x"], nodes["y"], strict=True))
    starts = set(zip(arrows["x"][::3], arrows["y"][::3], strict=True))
    assert starts == ends
    assert not ends & set(zip(arrows["x"][1::3], arrows["y"][1::3], strict=True))


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        (("one-peer-exponential", None, 8), 3),
        (("er:p=0.7", None, 6, "random"), 4),
        (("ring+star", None, 6), 2),
    ],
)
def test_every_layer_is_a_trace_of_the_legend(options, layers):
    facts, figure = drawn(*options)
    assert len(facts["layers"]) == layers
    *links, _ = figure["data"]
    assert [trace["name"] for trace in links] == [f"layer {k}" for k in range(layers)]
    counts = [layer["edges"] for layer in facts["layers"]]
    assert [trace["x"].count(None) for trace in links] == counts
    assert figure["layout"]["showlegend"]
