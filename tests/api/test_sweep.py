"""Objects among the options and on the axes of `mpi_gt.sweep`."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import mpi_gt
from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.problems import PROBLEMS

GT, DSGD = ALGORITHMS["gt"], ALGORITHMS["dsgd"]
RUN = {"n": 4, "iterations": 6, "stacked": True}


class Mine(DSGD):
    """A method of the user's."""


def column(runs, name):
    return [row[name] for row in runs.summary_rows]


def test_methods_and_a_problem_are_objects(tmp_path):
    runs = mpi_gt.sweep(
        {"seed": [0, 1]},
        **RUN,
        out=tmp_path / "s",
        algorithms=[GT(lr=0.2), Mine, "dsgd"],
        problem=(PROBLEMS["huber"], {"spread": 0.3}),
    )
    names = [name.rpartition(":")[2] for name in column(runs, "method")]
    assert names == ["gt", "gt", "Mine", "Mine", "dsgd", "dsgd"]
    assert column(runs, "lr")[:2] == [0.2, 0.2]
    assert set(column(runs, "problem.spread")) == {0.3}
    one = mpi_gt.run(**RUN, algorithm=Mine(), problem="huber:spread=0.3")
    assert (runs.final[2] == one.x).all()
    assert not (tmp_path / "s" / "inputs").exists()


@pytest.mark.parametrize("method", [GT(lr=0.2), (GT, {"lr": 0.2}), GT])
def test_one_method_needs_no_list(tmp_path, method):
    runs = mpi_gt.sweep({"seed": [0]}, **RUN, out=tmp_path / "s", algorithm=method)
    assert column(runs, "method") == ["gt"]


def test_objects_on_axes_are_files_and_the_same_call_finds_them_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    star = nx.star_graph(["a", "b", "c", "d"])
    start = np.arange(10.0)

    def sweep(**more):
        over = {"graph": [star, "ring"], "algorithm": [GT(lr=0.1), (DSGD, {"lr": 0.1})]}
        return mpi_gt.sweep(over, **RUN, x1=start, **more)

    runs = sweep(out="s")
    x = mpi_gt.run(**RUN, graph="star", algorithm="gt:lr=0.1", x1=start).x
    assert (runs.final[0] == x).all()
    assert len(list(Path("s/inputs").iterdir())) == 2
    before = [path.stat().st_mtime_ns for path in sorted(Path("s/points").glob("*/run.json"))]
    assert len(before) == len(sweep(out="s")) == 4
    assert before == [path.stat().st_mtime_ns for path in sorted(Path("s/points").glob("*/*.json"))
                      if path.name == "run.json"]  # fmt: skip
    start = start + 1
    sweep(out="s", overwrite=True)
    assert len(list(Path("s/inputs").iterdir())) == 2
    assert len(sweep()) == 4
    assert [path.name.endswith("huber-sweep") for path in Path("runs").iterdir()] == [True]


def test_a_sweep_that_cannot_begin_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options in ({"x1": np.ones((3, 10))}, {"graph": nx.cycle_graph(5)}, {"weights": np.eye(3)}):
        for out in ({"out": "new"}, {}):
            with pytest.raises(mpi_gt.UserError):
                mpi_gt.sweep({"lr": [0.1]}, **RUN, algorithms="gt", **options, **out)
            assert list(tmp_path.iterdir()) == [], options
    mpi_gt.run(**RUN, out="run")
    files = sorted(map(str, Path("run").rglob("*")))
    with pytest.raises(mpi_gt.UserError, match="run exists"):
        mpi_gt.sweep({"lr": [0.1]}, **RUN, algorithms="gt", x1=np.ones(10), out="run")
    assert files == sorted(map(str, Path("run").rglob("*")))


def test_values_may_come_from_a_generator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = mpi_gt.sweep({"lr": (value / 10 for value in (1, 2))}, **RUN, algorithms="gt")
    assert column(runs, "lr") == [0.1, 0.2]


@pytest.mark.parametrize("over", [None, 5, "lr=0.1"])
def test_axes_that_are_no_dictionary_are_one_message(over):
    with pytest.raises(mpi_gt.UserError, match="over is a dictionary"):
        mpi_gt.sweep(over, **RUN, algorithms="gt")
