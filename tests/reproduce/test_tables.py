"""The tables and the figure of a study whose stepsizes were chosen from a grid."""

import csv
import json
import struct

import numpy as np
import pytest

from mpi_gt.cli.main import main
from mpi_gt.reproduce.study import OF_THE_PAPER, make_study

SMALL = ["--stacked", "-n", "4", "--iterations", "40", "--log-every", "4", "--seeds", "3"]
NETWORK = ["--problem", "mlp:hidden=5,features=6,rows=240,batch=8"]
METHODS = ["gt-adaptive", "gt-adaptive-vr", "dsgd", "gt", "dsgd-momentum"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduce") / "network"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mpi_gt.plots.available", lambda: True)
        words = ["reproduce", "mnist-mlp", *SMALL, *NETWORK, "--quiet", "--out", str(out)]
        assert main(words) == 0
    return out


def test_the_experiment():
    assert "mnist-mlp" not in OF_THE_PAPER  # nor is it one of `reproduce all`
    for variant, split in (("literal", "iid"), ("label-sorted", "label")):
        study = make_study("mnist-mlp", variant, False, {}, None)
        assert list(study.runs) == METHODS
        for config in study.runs.values():
            assert (config.n, config.iterations, config.seeds) == (16, 2000, 3)
            assert config.problem == f"mlp:dataset=mnist,hidden=64,batch=32,split={split}"
            assert 100 not in config.seed_list  # the seed that chose the stepsizes
        assert "smallest training loss" in study.criterion
        assert "seed 100" in study.criterion


def test_the_table_has_stepsizes_and_the_accuracy_on_test_rows(small):
    text = (small / "summary.md").read_text()
    header = "| method | stepsize | other options | loss | gap | ‖∇f(x̄)‖² | consensus | accuracy "
    study = make_study("mnist-mlp", "literal", False, {}, None)
    assert header in text
    assert f" The stepsizes: {study.criterion}.\n" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    table = {row[0]: row for row in rows}
    summary = json.loads((small / "summary.json").read_text())["methods"]
    for label, config in study.runs.items():
        row = next(cells for name, cells in table.items() if name.endswith(f"({label})"))
        assert float(row[1]) == config.entries()[0].algorithm.lr
        assert row[7].startswith(f"{summary[label]['accuracy_test']['mean']:.4f} [")
        assert len(row) == 9
    assert text.count("\n|---|---|---|---|---|---|---|---|---|\n") == 1


def test_the_accuracy_is_a_column_and_a_claim(small):
    with (small / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    tails = {
        label: np.mean(
            [
                [float(r["accuracy_test"]) for r in rows if (r["algorithm"], r["seed"]) == key][-3:]
                for key in ((label, seed) for seed in "012")
            ],
            axis=1,
        )
        for label in METHODS
    }
    *_, last = json.loads((small / "claims.json").read_text())["claims"]
    assert last["claim"] == "Algorithm 1 ends with the highest accuracy on test rows"
    differences = {name: each["estimate"] for name, each in last["differences"].items()}
    assert list(differences) == ["dsgd", "gt", "dsgd-momentum"]
    for name, estimate in differences.items():
        assert estimate == pytest.approx(np.mean(tails["gt-adaptive"] - tails[name]), abs=1e-12)
    assert "| claim | verdict | measured |" in (small / "summary.md").read_text()


def test_the_figure_has_two_rows_of_three_panels(small):
    width, height = struct.unpack(">II", (small / "figure.png").read_bytes()[16:24])
    assert (width, height) == (15 * 150, int(8.4 * 150))


def test_a_problem_without_test_rows_has_no_such_column_and_claim(tmp_path):
    out = tmp_path / "softmax"
    words = ["reproduce", "mnist-mlp", *SMALL, "--problem", "softmax:rows=100", "--quiet"]
    assert main([*words, "--algorithms", "gt:lr=0.1,dsgd", "--out", str(out)]) == 0
    text = (out / "summary.md").read_text()
    assert "accuracy" not in text
    assert "| distributed GT (gt) | 0.1 | " in text
    assert "| DSGD (dsgd) | 0.01 | " in text  # the default
    assert len(json.loads((out / "claims.json").read_text())["claims"]) == 2
