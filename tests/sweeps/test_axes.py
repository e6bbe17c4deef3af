"""Axes of a sweep, from text and from Python."""

import numpy as np
import pytest

from mpi_gt import UserError
from mpi_gt.config import stepsizes
from mpi_gt.sweeps.axes import parse_axes, require_known, with_option


def values(text):
    (axis,) = parse_axes([text])
    return list(axis.values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("graph=ring,er:p=0.7,seed=1,torus", ["ring", "er:p=0.7,seed=1", "torus"]),
        ("problem=huber:dim=5,mine:Own:k=2", ["huber:dim=5", "mine:Own:k=2"]),
        ("graph=nx.circulant_graph:offsets=[1,3],ring", None),
        ("n=8, 16", ["8", "16"]),
        ("problem.spread=0,0.3", ["0", "0.3"]),
        ("straggler=node=0,ms=1;node=0,ms=5", ["node=0,ms=1", "node=0,ms=5"]),
        ("weights=a,b.npy;", ["a,b.npy"]),
        ("lr=0.1..10:3", ["0.1", "1", "10"]),
        ("lr=0.1..10:2,100", ["0.1", "10", "100"]),
        ("n=2..16:4", ["2", "4", "8", "16"]),
        ("channel.loss=0..0.3", ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"]),
        ("channel.links=0.1..0.9:3,0.95", ["0.1", "0.5", "0.9", "0.95"]),
        ("channel.noise=0.1..10:3", ["0.1", "1", "10"]),
        ("channel=links=0.1;loss=0.1,burst=3", ["links=0.1", "loss=0.1,burst=3"]),
        ("problem.data=../file.npz", ["../file.npz"]),
    ],
)
def test_values_of_an_axis(text, expected):
    assert values(text) == (expected or ["nx.circulant_graph:offsets=[1,3]", "ring"])


def test_a_range_is_the_grid_of_the_sweep_over_stepsizes():
    assert [float(lr) for lr in values("lr=1e-3..1e-1")] == stepsizes("1e-3..1e-1", None)


def test_axes_from_python():
    over = {"lr": np.array([0.01, 0.1]), "n": (4, 8), "graph": ["ring", "er:p=0.5,seed=1"]}
    over.update({"problem.spread": "0,0.5", "seeds": 3, "algorithm.lr2": [True]})
    assert {axis.name: axis.values for axis in parse_axes(over)} == {
        "lr": ("0.01", "0.1"),
        "n": ("4", "8"),
        "graph": ("ring", "er:p=0.5,seed=1"),
        "problem.spread": ("0", "0.5"),
        "seeds": ("3",),
        "lr2": ("true",),
    }


@pytest.mark.parametrize(
    "over",
    [
        {}, {"lr": []}, {"lr": [None]}, {"lr": [[1]]}, {3: [1]}, {"lr": [0.1, "0.10"]}, ["lr"],
        ["lr=0..1"], ["lr=1..1"], ["lr=2..1"], ["lr=1..inf"], ["lr=1..2:1"], ["lr=1..2:1001"],
        ["channel.loss=0..1"], ["channel.loss=0.3..0"], ["channel.noise=0..1"],
        ["channel.loss=-1..0"], ["lr=1..x"], ["lr= "], ["lr=1", "lr=2"],
        ["log-every=1", "log_every=2"],
    ],
    ids=repr,
)  # fmt: skip
def test_bad_axes_are_one_message(over):
    with pytest.raises(UserError):
        parse_axes(over)


def test_an_option_is_set_once():
    assert with_option("the algorithm", "gt:order=atc", "lr", "0.1") == "gt:lr=0.1,order=atc"
    assert with_option("the algorithm", "m:Own", "lr", "1") == "m:Own:lr=1"
    assert with_option("the algorithm", "m:Own:a=1", "lr", "1") == "m:Own:lr=1,a=1"
    with pytest.raises(UserError, match="sets the lr"):
        with_option("the algorithm", "gt:lr=1", "lr", "0.1")


def test_options_of_graphs_that_take_turns_are_no_axes():
    specs = {"problem": ["huber"], "algorithm": ["gt"], "graph": ["er:p=0.7+ring"]}
    with pytest.raises(UserError, match=r"graph er:p=0.7\+ring has no option 'p'"):
        require_known(parse_axes(["graph.p=0.1"]), specs)
    require_known(parse_axes(["graph=er:p=0.7+ring,seed=1,star", "matchings=all,random"]), specs)
