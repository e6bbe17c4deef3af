"""Options of a run with every default spelled out."""

import sys

from mpi_gt.config import RunConfig
from mpi_gt.results.options import spelled_options


def test_a_class_of_the_users_has_its_options(tmp_path, monkeypatch):
    (tmp_path / "mine_spelled.py").write_text(
        "class Plain:\n"
        "    def __init__(self, lr: float = 0.5, depth: int = 2, mode: str = 'a'):\n"
        "        self.lr = lr\n"
        "    def init(self, x, grad): ...\n"
        "    def step(self, t, state, mix, grad): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    config = RunConfig.of({"algorithm": "mine_spelled:Plain:depth=7"})
    (method,) = spelled_options(config)["algorithm"].values()
    assert method == {
        "name": "mine_spelled:Plain",
        "options": {"lr": 0.5, "depth": 7, "mode": "a"},
    }


def test_a_swept_stepsize_is_an_option(tmp_path):
    config = RunConfig.of({"algorithms": "gt", "lr": "0.1..1", "points": 2})
    methods = spelled_options(config)["algorithm"].values()
    assert [method["options"]["lr"] for method in methods] == [0.1, 1.0]
    assert {method["name"] for method in methods} == {"gt"}


def test_graphs_of_files_and_of_networkx_have_no_defaults():
    for graph in ("nx.circulant_graph:offsets=[1,3]",):
        found = spelled_options(RunConfig.of({"graph": graph}))["graph"]
        assert found == {"name": "nx.circulant_graph", "options": {"offsets": "[1,3]"}}
    found = spelled_options(RunConfig.of({"weights": "w.npy"}))["graph"]
    assert found == {"name": "w.npy", "options": {}}


def test_graphs_that_take_turns_are_named_as_they_are():
    found = spelled_options(RunConfig.of({"graph": "er:p=0.7+ring"}))["graph"]
    assert found == {"name": "er:p=0.7+ring", "options": {}}
