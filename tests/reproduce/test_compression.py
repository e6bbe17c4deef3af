"""The variant `compressed` of a9a: its parameters, costs and claims."""

import json

import pytest

from mpi_gt.cli.main import main
from mpi_gt.plots.metrics import _study_legends
from mpi_gt.reproduce.claims import Field
from mpi_gt.reproduce.compression import compressors_of, cost_table, costs_of, judge_compression
from mpi_gt.reproduce.study import make_study

ALL = {name: name for name in ("none", "bfloat16", "8 bits", "4 bits", "sign", "top")}


def rows_of(gaps):
    return [
        {"algorithm": name, "seed": seed, "iteration": t, "loss": 1.0, "gap": gap * factor}
        for name, gap in gaps.items()
        for t in range(20)
        for seed, factor in enumerate((1.0, 1.02, 0.97))
    ]


def verdicts(**changed):
    gaps = {**dict.fromkeys(ALL, 1.6e-8), "sign": 2.4e-8, **changed}
    found = judge_compression(rows_of({k: v for k, v in gaps.items() if v}), ALL)
    return [claim["verdict"] for claim in found]


def test_what_is_compared():
    study = make_study("a9a", "compressed", False, {}, None)
    named = compressors_of(study.runs)
    assert list(named) == list(ALL)
    methods = {name: study.runs[label].entries()[0].algorithm for name, label in named.items()}
    for method in methods.values():
        assert (method.lr, method.beta, method.period, method.vmin) == (0.01, 0, 64, 1e-4)
    assert (methods["8 bits"].block, methods["4 bits"].block) == (256, 64)
    assert (methods["sign"].gamma, methods["top"].k, methods["none"].gamma) == (0.5, 0.1, 0)
    config = next(iter(study.runs.values()))
    assert (config.n, config.budget) == (16, "gradients=305250")  # 150 epochs of 2035 rows
    assert "split=iid" in config.problem


def test_the_claims_can_fail():
    assert verdicts() == ["holds", "holds"]
    assert verdicts(**{"4 bits": 1.8e-8}) == ["does not hold", "holds"]
    assert verdicts(sign=6e-8) == ["holds", "does not hold"]
    assert verdicts(none=None) == ["not decided", "holds"]
    assert verdicts(bfloat16=None, sign=None) == ["not decided", "not decided"]
    assert [claim["verdict"] for claim in judge_compression([], {})] == ["not decided"] * 2


def test_the_claims_state_their_stepsizes():
    field = Field(None, {**dict.fromkeys(ALL, "0.01"), "none": "0.02"})
    first, second = judge_compression(rows_of(dict.fromkeys(ALL, 1e-8)), ALL, field)
    assert first["measure"].endswith(" minus 1.1 times none (lr 0.01 and 0.02)")
    assert second["measure"].endswith(" sign minus 5e-8 (lr 0.01)")


def test_costs_up_to_a_gap():
    gaps = {0: (1.0, 1.0), 10: (1e-5, 3e-4), 20: (5e-5, 5e-5), 30: (1e-5, 1e-5)}
    rows = [
        {
            "algorithm": "a",
            "iteration": str(t),
            "gap": str(gap),
            "bytes": str(100 * t),
            "seconds": str(0.5 * t),
        }
        for t, both in gaps.items()
        for gap in both
    ]
    found = costs_of(rows, "a")
    assert found["bytes"] == 3000
    assert found["reached"] == {"1e-4": {"bytes": 2000, "seconds": 10.0}, "1e-6": None}


def test_the_table_of_costs():
    cost = {"bytes": 4_000_000, "reached": {"1e-4": {"bytes": 10**6, "seconds": 2}, "1e-6": None}}
    costs = {"none": cost, "sign": {**cost, "bytes": 80_000}, "bfloat16": cost}
    text = "\n".join(cost_table(costs, ALL))
    assert "| sign | 0.1 MB | 50.0 | 1.0 MB | not reached |" in text
    assert "mpi-gt bench --compress" in text
    assert "| sign | 0.1 MB |  | 1.0 MB |" in "\n".join(cost_table(costs, {}))


@pytest.mark.figures
def test_the_variant_in_small(tmp_path, capsys):
    words = ["reproduce", "a9a", "--variant", "compressed", "--stacked", "-n", "4", "--seeds", "2"]
    words += ["--problem", "softmax:rows=200,batch=8", "--budget", "gradients=2000"]
    assert main([*words, "--log-every", "10", "--quiet", "--out", str(tmp_path / "s")]) == 0
    summary = json.loads((tmp_path / "s" / "summary.json").read_text())
    costs = list(summary["costs"].values())
    assert len(costs) == 7
    assert costs[1]["bytes"] == 4 * costs[2]["bytes"]  # bfloat16
    text = (tmp_path / "s" / "summary.md").read_text()
    assert "times fewer than none" in text
    assert "µs" not in text  # times of launches one after the other are no comparison
    assert "| claim | verdict |" in text
    assert (tmp_path / "s" / "figure.png").stat().st_size > 20_000


def test_legends_say_in_what_the_methods_differ():
    labels = ["gt", "dsgd:lr=0.1,order=atc", "dsgd:lr=0.2,order=atc", "beer:lr=0.1", "my:Own"]
    legends = _study_legends(labels)
    assert legends["dsgd:lr=0.1,order=atc"] == "DSGD: lr 0.1"
    assert legends["beer:lr=0.1"] == "BEER"
    assert legends["gt"] == "distributed GT"
    assert legends["my:Own"] == "my:Own"
