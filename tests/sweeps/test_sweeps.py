"""Sweeps over a grid, stacked in one process."""

import csv
import json
import warnings

import numpy as np
import pytest
from resuming import assert_same, stop_at

import mpi_gt
from mpi_gt import UserError
from mpi_gt.cli.main import main
from mpi_gt.sweeps import ranks
from mpi_gt.sweeps.axes import parse_axes
from mpi_gt.sweeps.outcome import best_points, edge_warnings

BASE = ["sweep", "--stacked", "--iterations", "20", "--quiet", "--no-figures"]
GRID = ["-n", "3", "--algorithms", "gt,dsgd", "--over", "lr=0.01,0.1", "--over", "graph=ring,star"]


def table(out):
    with (out / "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def facts(path):
    return json.loads((path / "run.json").read_text())


def test_points_are_ordinary_runs(tmp_path, capsys):
    out = tmp_path / "grid"
    assert main([*BASE, *GRID, "--seeds", "2", "--out", str(out)]) == 0
    rows = table(out)
    assert [(row["method"], row["lr"], row["graph"]) for row in rows] == [
        (method, lr, graph)
        for method in ("gt", "dsgd") for lr in ("0.01", "0.1") for graph in ("ring", "star")
    ]  # fmt: skip
    words = ["run", "--stacked", "-n", "3", "--iterations", "20", "--seeds", "2", "--quiet"]
    words += ["--algorithm", "dsgd:lr=0.1", "--graph", "star", "--out", str(tmp_path / "one")]
    assert main(words) == 0
    point = out / "points" / rows[-1]["point"]
    assert point.name == "0008-dsgd-lr-0.1-graph-star"
    assert_same(point, tmp_path / "one")
    assert float(rows[-1]["final_gap"]) == facts(tmp_path / "one")["final"]["gap"]
    assert facts(out)["status"] == "finished"
    assert main(["status", str(out), str(point)]) == 0
    assert "8 of 8 points" in capsys.readouterr().out
    assert len(mpi_gt.load(out)) == 8


def test_finished_points_are_not_run_again(tmp_path, monkeypatch):
    out = tmp_path / "grid"
    assert main([*BASE, *GRID, "--out", str(out)]) == 0
    before = {path: path.read_bytes() for path in out.glob("points/*/*")}
    ran = []
    run = ranks.run
    monkeypatch.setattr(
        ranks, "run", lambda config, *more: ran.append(config) or run(config, *more)
    )
    assert main([*BASE, *GRID, "--out", str(out)]) == 0
    assert main(["resume", str(out)]) == 0
    assert ran == []
    wider = [word.replace("0.01,0.1", "0.1,1,0.01") for word in GRID]  # others stay as they are
    assert main([*BASE, *wider, "--out", str(out)]) == 0
    assert len(ran) == 4
    assert {config.algorithm for config in ran} == {"gt:lr=1", "dsgd:lr=1"}
    assert {path: path.read_bytes() for path in before} == before
    assert len(table(out)) == 12
    assert main([*BASE, *GRID, "--out", str(out), "--overwrite"]) == 0
    assert len(ran) == 12
    assert len(list(out.glob("points/*"))) == 8


def test_a_stopped_sweep_continues_to_the_bit(tmp_path, monkeypatch, capsys):
    out, whole = tmp_path / "grid", tmp_path / "whole"
    with monkeypatch.context() as patch:
        stop_at(patch, 15)
        assert main([*BASE, *GRID, "--out", str(out)]) == 85
    assert facts(out)["status"] == "stopped"
    assert "8 of 8 points did not finish; to continue: mpi-gt resume" in capsys.readouterr().err
    assert [row["status"] for row in table(out)] == ["stopped"] + ["pending"] * 7
    assert main(["resume", str(out), "--quiet"]) == 0
    assert main([*BASE, *GRID, "--out", str(whole)]) == 0
    for path in sorted(whole.glob("points/*")):
        assert_same(out / "points" / path.name, path)
    assert len(facts(next(iter(sorted(out.glob("points/*")))))["resumes"]) == 1


def test_a_file_stops_a_sweep_between_two_points(tmp_path, monkeypatch):
    out = tmp_path / "grid"
    run = ranks.run

    def run_and_ask(*arguments):
        (out / "stop").write_text("")
        return run(*arguments)

    monkeypatch.setattr(ranks, "run", run_and_ask)
    assert main([*BASE, *GRID, "--out", str(out)]) == 85
    assert [row["status"] for row in table(out)] == ["finished"] + ["pending"] * 7
    assert not (out / "stop").exists()


def test_a_point_that_fails_does_not_stop_the_others(tmp_path, capsys):
    np.save(tmp_path / "x1.npy", np.ones(4))  # of another dimension than the problem
    words = ["-n", "3", "--algorithms", "gt", "--over", "problem.dim=4,5", "--over", "lr=0.1,1e300"]
    out = tmp_path / "grid"
    assert main([*BASE, *words, "--x1", str(tmp_path / "x1.npy"), "--out", str(out)]) == 1
    rows = table(out)
    assert [row["status"] for row in rows] == ["finished", "diverged", "failed", "failed"]
    assert "is for 4 dimensions, but the problem has 5" in rows[2]["error"]
    assert "2 of 4 points did not finish" in capsys.readouterr().err
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runs = mpi_gt.sweep(
            {"problem.dim": "4,5", "lr": [0.1, 1e300]}, n=3, algorithms="gt", iterations=20,
            stacked=True, x1=tmp_path / "x1.npy", out=out, no_figures=True,
        )  # fmt: skip
    assert [row["status"] for row in runs.summary_rows] == [row["status"] for row in rows]
    assert any("2 of 4 points" in str(each.message) for each in caught)


def test_python_returns_the_points(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    over = {"n": (2, 3), "problem.spread": [0, 0.5], "beta1": "0.5..0.9:2"}
    runs = mpi_gt.sweep(over, algorithm=["gt-adaptive"], iterations=5, stacked=True)
    rows = runs.summary_rows
    assert [(row["n"], row["problem.spread"], row["beta1"]) for row in rows] == [
        (n, spread, beta) for n in (2, 3) for spread in (0, 0.5) for beta in (0.5, 0.9)
    ]
    (out,) = (tmp_path / "runs").iterdir()
    assert out.name.endswith("-huber-sweep")
    with pytest.raises(UserError, match="there is no axis 'lrr'"):
        mpi_gt.sweep({"lrr": [1]}, n=2, stacked=True, iterations=5)
    assert len(list((tmp_path / "runs").iterdir())) == 1


BAD = [
    (["lrr=0.1"], "there is no axis 'lrr'; did you mean 'lr'?"),
    (["spread=0,1"], "it is an option of the problem, problem.spread"),
    (["graph.k=1"], "graph er has no option 'k'"),
    (["beta1=0.5"], "algorithm gt has no option 'beta1'"),
    (["lr=0.1,-1"], "lr must be finite and > 0"),
    (["graph=ring,er:p=2"], "at gt, graph er:p=2: graph er: p must be in"),
    (["problem.spread=0,-1"], "at gt, problem.spread -1: problem huber: spread must be"),
    (["problem=softmax:reg=-1"], "problem softmax: reg must be >= 0"),
    (["n=2,4"], "n is given twice: by -n and by --over n"),
    (["lr=0.1", "lr=1"], "--over lr is given twice"),
    (["lr=1e-3..1:500", "seed=1..1000:100"], "more than 5000"),
    (["x1=nowhere.npy"], "cannot read nowhere.npy"),
    (["stacked=true"], "stacked"),
    (["lr=0.1", "iterations=5"], "iterations is given twice"),
]


@pytest.mark.parametrize(("over", "message"), BAD, ids=[" ".join(over) for over, _ in BAD])
def test_bad_grids_are_one_message_before_anything_runs(over, message, tmp_path, capsys):
    words = [word for axis in over for word in ("--over", axis)]
    out = tmp_path / "new" / "grid"
    assert main([*BASE, "-n", "3", "--algorithms", "gt,dsgd", *words, "--out", str(out)]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown.splitlines()) == 1
    assert not out.parent.exists()


def test_a_directory_with_something_else_is_refused(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["run", "--stacked", "-n", "2", "--iterations", "2", "--quiet", "--no-figures",
                 "--out", str(run)]) == 0  # fmt: skip
    assert main([*BASE, *GRID, "--out", str(run)]) == 2
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("")
    assert main([*BASE, *GRID, "--out", str(other)]) == 2
    assert capsys.readouterr().err.count("mpi-gt: error:") == 2
    assert sorted(path.name for path in other.iterdir()) == ["thesis.txt"]


def test_points_of_a_changed_class_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    module = tmp_path / "swept_method.py"
    source = "from mpi_gt.algorithms.gt import GradientTracking as Mine\n"
    module.write_text(source + "class Own(Mine): pass\n")
    words = ["-n", "2", "--algorithms", "swept_method:Own", "--over", "lr=0.1,0.2", "--out", "g"]
    assert main([*BASE, *words]) == 0
    module.write_text(source + "class Own(Mine): c = 1\n")
    assert main([*BASE, *words]) == 2
    assert "holds another run: its files was" in capsys.readouterr().err


def test_best_points_by_setting_and_edges():
    axes = parse_axes({"lr": [0.01, 0.1, 1], "graph": ["ring", "star"]})
    gaps = {"ring": (3, 1, 2), "star": (3, 2, 0.5)}
    rows = [
        {"point": f"{graph}{lr}", "method": "gt", "lr": lr, "graph": graph, "gap": gap,
         "status": "finished"}
        for graph, several in gaps.items()
        for lr, gap in zip((0.01, 0.1, 1), several, strict=True)
    ]  # fmt: skip
    best = best_points(axes, rows)
    assert [(each.values["lr"], each.values["graph"], each.edges) for each in best] == [
        ("0.1", "ring", {}),
        ("1", "star", {"lr": "largest"}),
    ]
    assert [each.overall for each in best] == [False, True]
    (warning,) = edge_warnings(best, axes)
    assert "gt: the best lr is the largest of the grid in 1 of 2 settings (1)" in warning
    diverged = [{**row, "status": "diverged"} for row in rows]
    assert best_points(axes, diverged) == []


@pytest.mark.figures
def test_a_figure_per_two_axes(tmp_path, capsys):
    words = ["sweep", "--stacked", "-n", "3", "--iterations", "4", "--algorithms", "gt,dsgd"]
    words += ["--over", "lr=0.1..10:3", "--over", "graph=ring,star", "--over", "seeds=1,2"]
    out = tmp_path / "grid"
    assert main([*words, "--out", str(out)]) == 0
    names = sorted(path.name for path in out.glob("*.png"))
    assert names == ["sweep-lr-graph.png", "sweep-lr-seeds.png", "sweep-seeds-graph.png"]
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in names)
    shown = capsys.readouterr()
    assert "24 points: 24 finished" in shown.out
    assert "the best lr is the" in shown.err


@pytest.mark.parametrize("shape", [(10,), (2, 10), (3, 10), (3, 2, 10)])
def test_a_start_has_the_shapes_of_a_run(tmp_path, shape):
    np.save(tmp_path / "x1.npy", np.ones(shape))
    out = tmp_path / "grid"
    words = [*BASE, "-n", "3", "--algorithms", "gt", "--over", "lr=0.1", "--x1"]
    assert main([*words, str(tmp_path / "x1.npy"), "--seeds", "2", "--out", str(out)]) == 0
    # another start at the same point, which replaces it
    np.save(tmp_path / "other.npy", np.zeros(shape))
    words += [str(tmp_path / "other.npy"), "--seeds", "2", "--out", str(out), "--overwrite"]
    assert main(words) == 0
    assert len(table(out)) == 1
    np.save(tmp_path / "other.npy", np.zeros((5, *shape)))
    assert main(words) == 2
    assert len(table(out)) == 1


def test_a_point_with_damaged_options_is_run_again_or_refused(tmp_path, capsys):
    out = tmp_path / "grid"
    words = [*BASE, "-n", "2", "--algorithms", "gt", "--over", "lr=0.01,0.1", "--out", str(out)]
    assert main(words) == 0
    point = out / "points" / "0001-gt-lr-0.01"
    damaged = facts(point)
    damaged["config"]["weights"] = {}
    (point / "run.json").write_text(json.dumps(damaged))
    assert main([*words, "--resume"]) == 0
    assert len(table(out)) == 2
