"""`mpi-gt compare` in one process: every method beside the others."""

import csv
import json

import numpy as np
import pytest

from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.cli.main import main

STACKED = ["--stacked", "-n", "4", "--iterations", "50", "--seeds", "2"]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "all"
    assert main(["compare", *STACKED, "--out", str(out), "--quiet"]) == 0
    return out


def test_every_algorithm_by_default(comparison):
    summary = json.loads((comparison / "summary.json").read_text())
    assert list(summary) == ["schema", *ALGORITHMS]
    with np.load(comparison / "final.npz") as file:
        assert file.files == list(ALGORITHMS)
        assert {file[name].shape for name in file.files} == {(4, 2, 10)}
    assert (comparison / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_each_gets_the_numbers_of_a_run_of_its_own(comparison, tmp_path):
    for name in ALGORITHMS:
        out = tmp_path / name
        assert main(["run", *STACKED, "--algorithm", name, "--out", str(out), "--quiet"]) == 0
        with np.load(out / "final.npz") as alone, np.load(comparison / "final.npz") as together:
            np.testing.assert_array_equal(alone["x"], together[name])


def test_summary_is_the_mean_over_the_last_fifth(comparison):
    summary = json.loads((comparison / "summary.json").read_text())
    with (comparison / "metrics.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["algorithm"] == "gt"]
    logged = sorted({int(row["iteration"]) for row in rows})
    tail = set(logged[-11:])  # of 51
    mine = [float(row["gap"]) for row in rows if int(row["iteration"]) in tail]
    assert summary["gt"]["gap"] == pytest.approx(np.mean(mine))
    assert summary["gt"]["bytes_per_iteration"] == 2 * summary["dsgd"]["bytes_per_iteration"]
    assert summary["gt"]["tracking"] < 1e-12
    assert summary["dsgd"]["tracking"] is None


def test_first_iteration_below(tmp_path):
    out = tmp_path / "run"
    words = ["compare", "--stacked", "-n", "4", "--iterations", "400", "--log-every", "10"]
    assert main([*words, "--algorithms", "gt-adaptive,gt", "--out", str(out), "--quiet"]) == 0
    summary = json.loads((out / "summary.json").read_text())
    with (out / "metrics.csv").open(newline="") as file:
        below = [
            int(row["iteration"])
            for row in csv.DictReader(file)
            if row["algorithm"] == "gt-adaptive" and float(row["gap"]) < 1e-3
        ]
    assert summary["gt-adaptive"]["first_below_1e-3"] == below[0]
    assert summary["gt"]["first_below_1e-3"] is None


@pytest.mark.figures
def test_table_and_files_are_shown(tmp_path, capsys):
    words = ["compare", *STACKED, "--algorithms", "gt,dsgd", "--out", str(tmp_path / "a")]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "dsgd" in shown.out
    assert "comparison.png" in shown.out
    assert "summary.json" in shown.out


def test_one_that_diverges_does_not_stop_the_others(tmp_path, capsys):
    out = tmp_path / "run"
    words = ["compare", *STACKED, "--algorithms", "gt-adaptive:lr=1e308,dsgd", "--out", str(out)]
    assert main(words) == 3
    shown = capsys.readouterr()
    assert "diverged" in shown.out
    assert "gt-adaptive: a value is not finite" in shown.err
    summary = json.loads((out / "summary.json").read_text())
    assert "error" in summary["gt-adaptive"]
    assert summary["dsgd"]["loss"] > 0


@pytest.mark.parametrize(
    "words",
    [
        ["--algorithms", "dsgd,dsgd"],
        ["--algorithms", "dsgd,gtt"],
        ["--algorithms", ""],
        ["--algorithms", "dsgd:order=none"],
        ["--algorithm", "dsgd"],
    ],
    ids=" ".join,
)
def test_bad_lists(tmp_path, capsys, words):
    assert main(["compare", *STACKED, "--out", str(tmp_path / "run"), *words]) == 2
    assert capsys.readouterr().err.count("mpi-gt: error:") == 1


def test_run_takes_one_algorithm(tmp_path, capsys):
    (tmp_path / "two.toml").write_text('algorithms = "gt,dsgd"')
    assert main(["run", str(tmp_path / "two.toml"), *STACKED]) == 2
    assert "mpi-gt compare" in capsys.readouterr().err
