"""The variant `networks`: the same method on several networks, at equal steps and bytes."""

import json

import pytest

from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.reproduce.networks import EqualBytes, judge_networks
from mpi_gt.reproduce.study import make_study

SMALL = ["--stacked", "-n", "8", "--iterations", "60", "--log-every", "5", "--seeds", "3"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduce") / "networks"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mpi_gt.plots.available", lambda: True)
        words = ["reproduce", "huber", "--variant", "networks", *SMALL, "--quiet"]
        assert main([*words, "--out", str(out)]) == 0
    return out


def test_every_network_has_a_run_a_row_and_a_line(small):
    study = make_study("huber", "networks", False, {}, None)
    names = [label.partition("=")[2] for label in study.runs]
    assert names == ["er", "ring", "matchings of er", "one peer", "digraph", "directed ring"]
    text = (small / "summary.md").read_text()
    for name in names:
        assert text.count(f"\n| {name} | Algorithm 1") == 1
    methods = json.loads((small / "summary.json").read_text())["methods"]
    assert list(methods) == list(study.runs)
    assert (small / "figure.png").stat().st_size > 10_000
    assert len(json.loads((small / "claims.json").read_text())["claims"]) == 3
    assert "claim of the paper" not in text
    assert text.count(" (lr 0.001 and 0.001): ") == 3  # in each claim


def test_a_directed_network_runs_the_push_pull_form(small):
    facts = {
        name: json.loads((small / f"{method}-graph-{name}" / "run.json").read_text())
        for method, name in (("gt-adaptive-pp", "digraph"), ("gt-adaptive", "one-peer"))
    }
    assert facts["digraph"]["graph"]["directed"] is True
    assert facts["digraph"]["config"]["algorithm"] == "gt-adaptive-pp:lr=0.001"
    assert len(facts["one-peer"]["graph"]["layers"]) == 3
    sent = {name: run["bytes_sent"] for name, run in facts.items()}
    assert sent["one-peer"] == 8 * 60 * 3 * 2 * 10 * 8  # nodes, steps, seeds, vectors, entries


def rows_of(label, gap, bytes_per_step):
    return [
        {"algorithm": label, "iteration": str(t), "seed": str(seed), "loss": "1",
         "gap": repr(gap * (1 + seed / 100)), "bytes": str(t * bytes_per_step)}
        for t in range(0, 101, 10) for seed in range(3)
    ]  # fmt: skip


def test_runs_are_cut_at_the_bytes_of_the_cheapest():
    rows = rows_of("gt-adaptive:graph=er", 1.0, 10) + rows_of("gt-adaptive:graph=ring", 1.0, 2)
    cut = EqualBytes(rows)
    assert cut.bytes == 200
    assert cut.iterations == {"gt-adaptive:graph=er": 20, "gt-adaptive:graph=ring": 100}


@pytest.mark.parametrize(("gap", "verdict"), [(1.9, "holds"), (2.2, "does not hold")])
def test_the_claim_about_one_peer(gap, verdict):
    rows = rows_of("gt-adaptive:graph=er", 1.0, 10)
    rows += rows_of("gt-adaptive:graph=one peer", gap, 1)
    first, second, third = judge_networks(rows)
    assert first["verdict"] == verdict
    assert second["missing"] == ["ring"]
    assert third["verdict"] == "not decided"


def test_its_networks_are_its_own():
    with pytest.raises(UserError, match="the variant networks has its own graph"):
        make_study("huber", "networks", False, {"graph": "ring"}, None)
