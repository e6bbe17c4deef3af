"""Columns that only some runs have: f(xbar) - f*, and a problem's own metrics."""

import csv
import json

import numpy as np
import pytest
from resuming import assert_same, resume, run, stopped
from support import facts

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.rundir.curves import read_curves
from mpi_gt.rundir.metrics_csv import COLUMNS, is_column_name, read_rows
from mpi_gt.rundir.run_state import read_state

SOURCE = """
import numpy as np
from mpi_gt.problems.base import Constant, Constants, Problem

class Bowl(Problem):
    '''f_i(x) = ||x - 1||²/2 + i, whose least value is the mean of i.'''

    def __init__(self, place):
        self.dim, self.place, self.calls = 3, place, 0

    def gradient(self, t, x):
        return x - 1

    def evaluate(self, x):
        self.calls += 1
        return ((x - 1) ** 2).sum(axis=-1) / 2 + self.place.node, x - 1

    def constants(self):
        zero = Constant(0.0, True)
        return Constants(Constant(1.0, True), zero, zero, Constant(self.place.node, EXACT))

    def metrics(self, x):
        late = self.calls == 4
        made = {"largest": np.abs(x).max(axis=1)}
        made["twice_node"] = np.full(len(x), 2.0 * self.place.node)
        #metrics
        return made

EXACT = True
"""
WORDS = ["run", "--stacked", "-n", "3", "--seeds", "2", "--iterations", "20", "--log-every", "2"]
WORDS += ["--algorithm", "gt:lr=0.3", "--problem", "mine:Bowl", "--quiet", "--out", "run"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A function that writes the module, with a line of it replaced."""
    monkeypatch.chdir(tmp_path)

    def write(line="late", by="late"):
        assert line in SOURCE
        (tmp_path / "mine.py").write_text(SOURCE.replace(line, by))
        return tmp_path / "run"

    return write


def rows(directory):
    with (directory / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_problem_s_own_metrics_are_columns(mine):
    out = mine()
    assert main(WORDS) == 0
    table = rows(out)
    assert tuple(table[0]) == (*COLUMNS, "suboptimality", "largest", "twice_node")
    first, last = table[0], table[-1]
    assert (first["suboptimality"], first["largest"], first["twice_node"]) == ("1.5", "0.0", "2.0")
    assert first["loss"] == "2.5"
    assert float(last["suboptimality"]) == pytest.approx(float(last["loss"]) - 1, abs=1e-15)
    assert float(last["largest"]) == pytest.approx(1, abs=0.1)
    final = facts(out)["final"]
    assert final["twice_node"] == 2
    assert final["largest"] == pytest.approx(np.mean([float(r["largest"]) for r in table[-2:]]))
    assert read_rows(out / "metrics.csv") == table
    (curve,), troubles = read_curves(out / "metrics.csv", "run")
    assert not troubles
    assert curve.metrics["largest"].shape == (2, 11)
    assert read_state(out).iteration == 20


def test_in_python_and_in_a_summary(mine):
    mine()
    options = {"stacked": True, "n": 3, "problem": "mine:Bowl", "iterations": 10}
    result = mpi_gt.run(algorithms="gt:lr=0.3,dsgd:lr=0.3", **options)
    assert list(result.metrics[0])[-3:] == ["suboptimality", "largest", "twice_node"]
    for row in result.facts["summary"].values():
        assert row["twice_node"] == 2
        assert row["suboptimality"] == pytest.approx(row["loss"] - 1)


@pytest.mark.figures
def test_on_the_page_and_in_figures(mine):
    out = mine()
    assert main(WORDS) == 0
    assert (out / "metrics.png").stat().st_size > 1000
    assert "metrics.png" in facts(out)["figures"]
    assert main(["report", "run", "-o", "page.html"]) == 0
    page = (out.parent / "page.html").read_text()
    for name in ("largest", "twice_node", "suboptimality"):
        assert f'value="{name}"' in page


def test_resumed_to_the_same_bits(mine, monkeypatch):
    out = mine()
    words = ["--problem", "mine:Bowl", "--algorithm", "gt:lr=0.01"]
    run(out.parent / "whole", *words)
    stopped(monkeypatch, out, *words)
    resume(out)
    assert_same(out, out.parent / "whole")


def test_a_run_of_an_older_version_goes_on_without_new_columns(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("mpi_gt.problems.huber.Huber.least_value", lambda self: None)
        run(tmp_path / "whole")
        stopped(monkeypatch, tmp_path / "parts")
    resume(tmp_path / "parts")
    assert_same(tmp_path / "parts", tmp_path / "whole")
    assert tuple(rows(tmp_path / "parts")[0]) == COLUMNS


def test_where_f_star_is_known():
    options = {"stacked": True, "n": 3, "iterations": 300}
    known = mpi_gt.run(problem="huber:dim=3,noise=0.2", algorithm="gt:lr=1", **options).metrics
    assert known[0]["suboptimality"] > 0.01
    assert abs(known[-1]["suboptimality"]) < 0.1 * known[-1]["gap"] + 1e-4
    differences = {row["loss"] - row["suboptimality"] for row in known}
    assert max(differences) - min(differences) < 1e-15
    for problem in ("huber:spread=0.1", "softmax:rows=300"):
        assert "suboptimality" not in mpi_gt.run(problem=problem, **options).metrics[0]


def test_a_bound_is_not_f_star(mine):
    out = mine("EXACT = True", "EXACT = False")
    assert main(WORDS) == 0
    assert tuple(rows(out)[0]) == (*COLUMNS, "largest", "twice_node")


BEFORE = {
    "list": ("return made", "return [1.0]", "Bowl.metrics must return a dictionary of arrays"),
    "name": ("#metrics", "made['a b'] = x[:, 0]", "'a b' cannot name a column: it is not an ident"),
    "number": ("#metrics", "made[3] = x[:, 0]", "3 cannot name a column"),
    "keyword": ("#metrics", "made['class'] = x[:, 0]", "'class' cannot name a column"),
    "underscore": ("#metrics", "made['_a'] = x[:, 0]", "'_a' cannot name a column"),
    "known": ("#metrics", "made['loss'] = x[:, 0]", "'loss' cannot name a column: the run has its"),
    "reserved": ("#metrics", "made['error'] = x[:, 0]", "'error' cannot name a column"),
    "float": ("#metrics", "made['a'] = 1.0", "'a' is a float, not an array of shape (2,)"),
    "shape": ("#metrics", "made['a'] = x", "'a' has shape (2, 3), not (2,)"),
    "text": ("#metrics", "made['a'] = np.array(['x', 'y'])", "'a' has dtype <U1"),
    "nan": ("#metrics", "made['a'] = np.array([1, np.nan])", "'a' is nan for the seed in row 1"),
    "raise": ("#metrics", "raise KeyError('odd')", "Bowl.metrics failed: KeyError: 'odd'"),
    "write": ("#metrics", "x[:] = 0", "Bowl.metrics failed: ValueError: assignment destination is"),
    "node": ("#metrics", "if self.place.node == 2: del made['largest']",
             "Bowl.metrics must return the same names in the same order on all nodes: they are "
             "['largest', 'twice_node'] on node 0 and ['twice_node'] on node 2"),
    "least": ("EXACT = True", "EXACT = True\\nBowl.least_value = lambda self: 'low'",
              "Bowl.least_value must return a number or None, not a str"),
    "infinite": ("EXACT = True", "EXACT = True\\nBowl.least_value = lambda self: -np.inf",
                 "Bowl.least_value must be finite, not -inf"),
    "one node": ("self.place.node, EXACT)", "self.place.node, self.place.node == 1)",
                 "the least value of f must be known on all nodes or on none"),
}  # fmt: skip
DURING = {
    "other": ("#metrics", "if late: made['a'] = made.pop('largest')",
              "must return the same names at all times: 'largest', 'twice_node', not "
              "'twice_node', 'a'"),
    "fewer": ("#metrics", "if late: made = {}", "'largest', 'twice_node', not nothing"),
    "shape": ("#metrics", "if late: made['largest'] = x", "'largest' has shape (2, 3), not (2,)"),
    "nan": ("#metrics", "if late: made['largest'] = x[:, 0] * np.nan", "'largest' is nan"),
    "none": ("return made", "return None if late else made", "a dictionary of arrays"),
}  # fmt: skip


@pytest.mark.parametrize("case", BEFORE)
def test_a_wrong_class_is_refused_before_the_run(mine, case, capsys):
    line, by, message = BEFORE[case]
    out = mine(line, by.replace("\\n", "\n"))
    assert main(WORDS) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize("case", DURING)
def test_a_wrong_result_ends_the_run_with_one_message(mine, case, capsys):
    line, by, message = DURING[case]
    out = mine(line, by)
    assert main(WORDS) == 1
    error = capsys.readouterr().err
    assert error.startswith("mpi-gt: error: Bowl.metrics")
    assert message in error
    assert error.count("\n") == 1
    assert facts(out)["status"] == "failed"


def test_numbers_of_a_run_that_diverges_are_no_fault_of_the_class(mine):
    mine(
        "gradient(self, t, x):\n        return x - 1",
        "gradient(self, t, x):\n        return -1e60 * x - 1",
    )
    assert main(WORDS) == 3


def test_damaged_columns_are_noticed(mine, capsys):
    out = mine()
    assert main(WORDS) == 0
    path = out / "metrics.csv"
    whole = path.read_text()
    for old, new in (("largest", "lar gest"), (",2.0\n", ",\n,"), (",2.0\n", ",2.0,2.0\n")):
        path.write_text(whole.replace(old, new))
        with pytest.raises(mpi_gt.UserError, match="damaged"):
            read_rows(path)
    json.loads((out / "run.json").read_text())


def test_names_of_columns():
    assert all(map(is_column_name, ("a", "a1", "größe", "l" * 64)))
    bad = ("", "1a", "a-b", "a,b", "a\nb", "if", "_a", "l" * 65, 3, None)
    assert not any(map(is_column_name, bad))
