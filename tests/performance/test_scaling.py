"""`mpi-gt scale`: which runs it makes, and their efficiency."""

import csv
import json

import pytest
from support import FIGURES, json_files

from mpi_gt.config import RunConfig
from mpi_gt.errors import UserError
from mpi_gt.performance import scaling


def test_scale(openmpi, call, tmp_path):
    words = ["scale", "-n", "2,1", "--graphs", "complete", "--iterations", "10"]
    problem = "softmax:dataset=synthetic,batch=8"
    done = call(openmpi.mpi_gt(*words, "--problem", problem, "--out", tmp_path / "s"), env=FIGURES)
    assert "scaling" in done.out
    rows = json.loads((tmp_path / "s" / "scale.json").read_text())["rows"]
    assert [(row["mode"], row["ranks"], row["batch"]) for row in rows] == [
        ("strong", 1, 16),
        ("strong", 2, 8),
        ("weak", 1, 8),
        ("weak", 2, 8),
    ]
    assert [row["bytes_per_iteration"] > 0 for row in rows] == [False, True] * 2
    assert (tmp_path / "s" / "scale.png").exists()
    files = json_files(tmp_path / "s")
    assert {"scale.json", "scale.columns.json", "run.json", "profile.json", "trace.json"} == {
        *files
    }
    with (tmp_path / "s" / "scale.csv").open() as file:
        header = next(csv.reader(file))
    listed = files["scale.columns.json"]["columns"]
    assert [column["name"] for column in listed] == header == list(scaling.COLUMNS)
    units = {column["name"]: column["unit"] for column in listed}
    assert units["seconds_per_iteration"] == units["waiting"] == "s"
    assert units["bytes_per_iteration"] == "bytes"


def test_strong_scaling_needs_a_batch(tmp_path):
    config = RunConfig.of({"problem": "huber"})
    points = scaling.make_points(config, "2,4", "ring", None, tmp_path)
    assert {point.mode for point in points} == {"weak"}
    with pytest.raises(UserError, match="has none"):
        scaling.make_points(config, "2,4", "ring", "strong", tmp_path)
    for ranks in ("0", "x", "", "2,-1"):
        with pytest.raises(UserError):
            scaling.make_points(config, ranks, "ring", "weak", tmp_path)


def test_scale_finds_an_impossible_graph_before_the_first_run(tmp_path):
    config = RunConfig.of({"problem": "huber"})
    with pytest.raises(UserError, match="hypercube"):
        scaling.make_points(config, "2,3", "ring,hypercube", "weak", tmp_path)


def test_scale_sets_the_batch_of_a_class_of_the_user(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from mpi_gt.problems.softmax import Softmax\n"
        "class Own(Softmax):\n    def __init__(self, place, batch: int = 5):\n        pass\n"
    )
    monkeypatch.chdir(tmp_path)
    config = RunConfig.of({"problem": "mine:Own"})
    points = scaling.make_points(config, "2,4", "ring", "strong", tmp_path)
    assert [point.config.problem for point in points] == ["mine:Own:batch=10", "mine:Own:batch=5"]


def test_efficiency_is_against_the_smallest():
    rows = [
        {"mode": mode, "graph": "ring", "ranks": n, "seconds_per_iteration": s}
        for mode, n, s in [("strong", 2, 1.0), ("strong", 4, 0.5), ("weak", 2, 1.0), ("weak", 4, 2)]
    ]
    scaling.add_efficiency(rows)
    assert [row["efficiency"] for row in rows] == [1, 1, 1, 0.5]
