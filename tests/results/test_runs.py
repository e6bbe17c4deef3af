"""Runs as tables: `mpi_gt.load`, and the same of a Result."""

import csv
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import mpi_gt
from mpi_gt import UserError
from mpi_gt.cli.main import main
from mpi_gt.rundir.summary import summarise

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run, and a comparison in which one method diverges."""
    folder = tmp_path_factory.mktemp("loaded") / "runs"
    folder.mkdir()
    common = ["--stacked", "-n", "3", "--iterations", "20", "--no-figures", "--quiet"]
    words = ["--algorithm", "gt-adaptive:lr=0.02", "--problem", "huber:spread=0.3"]
    assert main(["run", *common, *words, "--graph", "ring", "--out", str(folder / "a")]) == 0
    words = ["--seeds", "2", "--seed", "5", "--algorithms", "gt,dsgd:lr=0.1,dsgd:lr=1e300"]
    assert main(["compare", *common, *words, "--out", str(folder / "b")]) == 3
    return folder


def test_metrics_are_tidy(folder):
    table = mpi_gt.load(folder).metrics
    run = table[table.method == "gt-adaptive"]
    described = run[["lr", "beta1", "graph", "n", "problem", "problem.spread", "problem.dim"]]
    assert described.drop_duplicates().values.tolist() == [[0.02, 0.9, "ring", 3, "huber", 0.3, 10]]
    rows = mpi_gt.load(folder / "a").metrics
    with (folder / "a" / "metrics.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert rows.gap.tolist() == [float(row["gap"]) for row in written]
    assert rows.iteration.tolist() == [int(row["iteration"]) for row in written]
    assert rows.columns[-len(written[0]) :].tolist() == list(written[0])
    both = table[table.method == "dsgd"]
    assert sorted(both.lr.unique()) == [0.1, 1e300]
    assert sorted(both.seed.unique()) == [5, 6]
    assert both["problem.spread"].eq(0).all()
    assert both.beta1.isna().all()
    assert table.gap.dtype == table.accuracy.dtype == float


def test_summary_has_one_row_per_run_and_method(folder):
    runs = mpi_gt.load(folder)
    table = runs.summary
    assert len(runs) == len(table) == 4
    assert table.status.tolist() == ["finished", "finished", "finished", "diverged"]
    assert table.error.notna().tolist() == [False, False, False, True]
    facts = json.loads((folder / "b" / "run.json").read_text())
    assert table.gap[1] == facts["summary"]["gt"]["gap"]
    assert np.isnan(table.gap[3])
    last = [row for row in runs.metrics.to_dict("records") if row["method"] == "gt"]
    tail = [[row["gap"] for row in last if row["seed"] == seed][-5:] for seed in (5, 6)]
    means = np.mean(tail, axis=1)
    assert table.gap_se[1] == pytest.approx(np.std(means, ddof=1) / np.sqrt(2))
    assert table.final_gap[1] == pytest.approx(facts["results"]["gt"]["final"]["gap"])
    assert runs.config[0]["graph"] == "ring"
    assert runs.config[1] == facts["config"]


def test_final_belongs_to_the_rows_of_the_summary(folder):
    final = mpi_gt.load([folder / "a", str(folder / "b")]).final
    saved = np.load(folder / "b" / "final.npz")
    np.testing.assert_array_equal(final[0], np.load(folder / "a" / "final.npz")["x"])
    np.testing.assert_array_equal(final[2], saved["dsgd:lr=0.1"])
    assert final[3] is None
    assert [None if x is None else x.shape for x in final][1:3] == [(3, 2, 10)] * 2
    assert len(final[:2]) == 2


def test_patterns_lists_and_folders_name_runs(folder):
    assert len(mpi_gt.load(str(folder / "*"))) == 4
    assert len(mpi_gt.load([folder / "a", folder / "a"])) == 1
    assert [path.name for path in mpi_gt.load(folder.parent).directories][:2] == ["a", "b"]


@pytest.mark.parametrize("bad", ["nowhere", "nowhere*", [], [3], "empty", "file"])
def test_what_holds_no_run_is_one_message(bad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError):
        mpi_gt.load(bad)


def test_an_unfinished_run_is_loaded_as_far_as_it_is(folder, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(folder / "b", out)
    facts = json.loads((out / "run.json").read_text())
    for name in ("results", "summary", "exit_code", "finished"):
        del facts[name]
    facts.update(status="failed", error="killed")
    (out / "run.json").write_text(json.dumps(facts))
    lines = (out / "metrics.csv").read_text().splitlines(keepends=True)
    (out / "metrics.csv").write_text("".join(lines[:31]) + lines[31][:25])  # a torn line
    (out / "final.npz").unlink()
    runs = mpi_gt.load(out)
    assert len(runs.metrics) == 30
    assert runs.summary.status.tolist() == ["failed"] * 3
    assert runs.summary.error[0] == "killed"
    assert runs.summary.iteration[0] == 14
    assert runs.summary.gap.notna().tolist() == [True, False, False]
    assert list(runs.final) == [None] * 3


def test_a_run_of_an_earlier_version_has_the_same_columns(folder, tmp_path):
    shutil.copytree(folder / "a", tmp_path / "a")
    facts = json.loads((tmp_path / "a" / "run.json").read_text())
    del facts["options"], facts["config"]["no_figures"]
    (tmp_path / "a" / "run.json").write_text(json.dumps(facts))
    old, new = mpi_gt.load(tmp_path / "a").metrics, mpi_gt.load(folder / "a").metrics
    pd.testing.assert_frame_equal(old.drop(columns="directory"), new.drop(columns="directory"))


def test_damaged_metrics_are_one_message(folder, tmp_path):
    shutil.copytree(folder / "a", tmp_path / "a")
    text = (tmp_path / "a" / "metrics.csv").read_text()
    (tmp_path / "a" / "metrics.csv").write_text(text.replace("gt-adaptive,0,3,", "gt-adaptive,x,"))
    with pytest.raises(UserError, match=r"metrics\.csv is damaged"):
        mpi_gt.load(tmp_path / "a")


def test_a_result_has_the_same_tables(folder, tmp_path):
    options = {"stacked": True, "n": 3, "iterations": 20, "graph": "ring"}
    options.update(problem="huber:spread=0.3", algorithm="gt-adaptive:lr=0.02")
    result = mpi_gt.run(**options)
    loaded = mpi_gt.load(folder / "a")
    other = ["directory", "seconds"]
    pd.testing.assert_frame_equal(
        result.metrics_table.drop(columns=other), loaded.metrics.drop(columns=other)
    )
    assert result.summary.gap[0] == loaded.summary.gap[0]
    np.testing.assert_array_equal(result.final[0], loaded.final[0])
    assert result.config[0]["problem"] == "huber:spread=0.3"
    rows = summarise(result.metrics, result.facts["results"])
    assert result.summary.loss[0] == rows["gt-adaptive"]["loss"]


@pytest.mark.figures
def test_plot_returns_axes_with_a_line_per_row(folder):
    axes = mpi_gt.load(folder).plot()
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == [
        "gt-adaptive, lr 0.02, graph ring, problem.spread 0.3",
        "gt, lr 0.01, graph er, problem.spread 0",
        "dsgd, lr 0.1, graph er, problem.spread 0",
        "dsgd, lr 1e+300, graph er, problem.spread 0",
    ]
    assert axes.get_yscale() == "log"
    again = mpi_gt.load(folder / "a").plot("loss", x="bytes", ax=axes.figure.add_subplot())
    np.testing.assert_array_equal(
        again.lines[0].get_ydata(), mpi_gt.load(folder / "a").metrics.loss
    )
    with pytest.raises(UserError, match="no metric 'gapp'; did you mean 'gap'"):
        mpi_gt.load(folder).plot("gapp")
    with pytest.raises(UserError, match="x cannot be 'time'"):
        mpi_gt.load(folder).plot(x="time")
    with pytest.raises(UserError, match="no run has measured accuracy"):
        mpi_gt.load(folder).plot("accuracy")


def test_without_pandas_there_is_one_message(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    runs = mpi_gt.load(folder)
    assert [row["method"] for row in runs.summary_rows] == ["gt-adaptive", "gt", "dsgd", "dsgd"]
    for name in ("metrics", "summary"):
        with pytest.raises(UserError, match=r"pip install 'mpi-gt\[pandas\]'"):
            getattr(runs, name)


def test_loading_imports_no_pandas_until_a_table_is_asked_for(folder):
    code = f"import mpi_gt, sys; mpi_gt.load({str(folder)!r}); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr


def test_options_are_spelled_out_in_run_json(folder):
    facts = json.loads((folder / "b" / "run.json").read_text())
    options = facts["options"]
    assert options["problem"]["options"]["dim"] == 10
    assert options["graph"] == {"name": "er", "options": {"p": 0.7, "seed": 0}}
    assert options["algorithm"]["dsgd:lr=0.1"] == {
        "name": "dsgd",
        "options": {"lr": 0.1, "schedule": "constant", "order": "cta", "every": 1},
    }


@pytest.mark.parametrize("where", [None, 5, b"runs", [5]])
def test_what_is_no_path_is_one_message(where):
    with pytest.raises(mpi_gt.UserError, match=r"load takes a directory|a run directory is a path"):
        mpi_gt.load(where)


def test_a_run_with_two_names_is_loaded_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mpi_gt.run(stacked=True, n=3, iterations=5, out="runs/deep/a")
    (tmp_path / "link").symlink_to("runs/deep/a")
    where = ["runs/deep/a", tmp_path / "runs" / "deep" / "a", "link", "runs/**/a", "runs/**"]
    runs = mpi_gt.load(where)
    assert len(runs) == 1
    assert [str(path) for path in runs.directories] == ["runs/deep/a"]


def test_a_figure_of_nothing_says_so(tmp_path):
    mpi_gt.run(stacked=True, n=3, iterations=5, out=tmp_path / "a")
    (tmp_path / "a" / "metrics.csv").unlink()
    with pytest.raises(mpi_gt.UserError, match="no run has measured anything"):
        mpi_gt.load(tmp_path / "a").plot()
