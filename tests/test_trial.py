"""$MPI_GT_TRIAL cuts everything short, and says so."""

import json

import pytest

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.config import RunConfig
from mpi_gt.performance.bench_plan import BenchPlan
from mpi_gt.reproduce.study import make_study


@pytest.fixture
def trial(monkeypatch):
    monkeypatch.setenv("MPI_GT_TRIAL", "5")


def test_a_run_is_cut_and_says_so(trial, tmp_path):
    words = ["run", "--stacked", "-n", "3", "--iterations", "1000", "--log-every", "100"]
    assert main([*words, "--out", str(tmp_path / "run"), "--quiet"]) == 0
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["config"]["iterations"] == 5
    assert any("MPI_GT_TRIAL" in warning for warning in facts["warnings"])
    last = (tmp_path / "run" / "metrics.csv").read_text().splitlines()[-1]
    assert last.split(",")[2] == "5"


def test_so_are_ranks(trial):
    assert RunConfig.of({"n": 16}).n == 4
    assert RunConfig.of({"n": 3}).n == 3
    assert BenchPlan.of({"n": "16"}).n == 4


def test_so_are_the_methods_of_an_experiment(trial):
    assert list(make_study("huber", "literal", False, {}, None).runs) == ["gt-adaptive", "dsgd"]


def test_extending_a_run_is_cut_as_well(trial, tmp_path, capsys):
    out = str(tmp_path / "run")
    assert main(["run", "--stacked", "-n", "3", "--out", out, "--quiet"]) == 0
    assert main(["resume", out, "--iterations", "1000"]) == 0
    assert "is finished" in capsys.readouterr().out


def test_what_is_shorter_stays(trial):
    assert mpi_gt.run(stacked=True, n=3, iterations=2).metrics[-1]["iteration"] == 2
    assert BenchPlan(seconds=1.0).seconds == 0.005
    assert BenchPlan(seconds=0.001).seconds == 0.001


def test_without_it_nothing_is_cut(monkeypatch):
    monkeypatch.delenv("MPI_GT_TRIAL", raising=False)
    assert RunConfig().iterations == 2000
    assert BenchPlan().seconds == 0.5


@pytest.mark.parametrize("text", ["0", "many", "-1"])
def test_nonsense_is_refused(monkeypatch, capsys, text):
    monkeypatch.setenv("MPI_GT_TRIAL", text)
    assert main(["run", "--stacked", "-n", "3"]) == 2
    assert "MPI_GT_TRIAL must be" in capsys.readouterr().err
