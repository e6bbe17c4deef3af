"""Comparisons, and users' own classes, in one process."""

import csv
import json
import textwrap

import numpy as np
import pytest

from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.cli.main import main
from mpi_gt.config import RunConfig
from mpi_gt.errors import UserError
from mpi_gt.spec import split_list

STACKED = ["--stacked", "-n", "4", "--iterations", "50", "--seeds", "2"]


def labels(text):
    return [entry.label for entry in RunConfig(algorithms=text).entries()]


def test_list_of_algorithms():
    assert split_list("gt-adaptive:lr=0.001,vmin=0.01,dsgd:lr=0.1") == [
        "gt-adaptive:lr=0.001,vmin=0.01",
        "dsgd:lr=0.1",
    ]
    assert split_list("a, b ,c:x=1") == ["a", "b", "c:x=1"]
    assert split_list("m:C,dsgd") == ["m:C", "dsgd"]
    assert split_list("m:C,lr=1,dsgd,lr=2") == ["m:C:lr=1", "dsgd:lr=2"]


def test_labels():
    assert labels("gt,dsgd:lr=0.1") == ["gt", "dsgd"]
    assert labels("dsgd,dsgd:lr=0.1,gt") == ["dsgd", "dsgd:lr=0.1", "gt"]
    for bad in ("dsgd,dsgd", "dsgd:lr=1,dsgd:lr=1", "", "dsgd,", "lr=0.1,dsgd", "dsgd:lr=0"):
        if bad == "dsgd,":
            assert labels(bad) == ["dsgd"]
        else:
            with pytest.raises(UserError):
                labels(bad)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "all"
    assert main(["compare", *STACKED, "--out", str(out), "--quiet"]) == 0
    return out


def test_every_algorithm_by_default(comparison):
    summary = json.loads((comparison / "summary.json").read_text())
    assert list(summary) == list(ALGORITHMS)
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


# ---- users' own classes

METHOD = """
from dataclasses import dataclass
from typing import NamedTuple
import numpy as np

@dataclass(frozen=True)
class Mine:
    lr: float = 0.1

    class State(NamedTuple):
        x: np.ndarray
        g: np.ndarray

    def init(self, x, grad):
        return self.State(x, grad(x))

    def step(self, t, state, mix, grad):
        x = mix(state.x).wait() - self.lr * state.g
        return self.State(x, grad(x))
"""

PROBLEM = """
import numpy as np

class Bowl:
    def __init__(self, place, *, dim: int = 3, centre: float = 1.0):
        self.dim, self.centre = dim, centre + place.node

    def gradient(self, t, x):
        return x - x.dtype.type(self.centre)

    def evaluate(self, x):
        return 0.5 * ((x - self.centre) ** 2).sum(axis=-1), x - self.centre
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module into the working directory, under a name of its own."""
    monkeypatch.chdir(tmp_path)

    def write(source, change=None):
        name = f"mine_{abs(hash((source, change, str(tmp_path))))}"
        if change:
            assert change[0] in source
            source = source.replace(*change)
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        return name

    return write


def test_own_algorithm_and_problem(module, tmp_path):
    method, problem = module(METHOD), module(PROBLEM)
    words = ["run", *STACKED, "--iterations", "200", "--quiet", "--out", "run"]
    words += ["--algorithm", f"{method}:Mine:lr=0.2", "--problem", f"{problem}:Bowl:dim=2"]
    assert main(words) == 0
    assert np.load(tmp_path / "run" / "final.npz")["x"].mean() == pytest.approx(2.5)
    with (tmp_path / "run" / "metrics.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["algorithm"] == "Mine"


def test_own_algorithm_beside_ours(module, tmp_path):
    name = f"{module(METHOD)}:Mine"
    words = ["compare", *STACKED, "--quiet", "--out", "run", "--algorithms"]
    assert main([*words, f"{name}:lr=0.01,dsgd"]) == 0
    with np.load(tmp_path / "run" / "final.npz") as file:
        np.testing.assert_array_equal(file["Mine"], file["dsgd"])


BROKEN_METHODS = [
    (("def step", "def steps"), "lacks step()"),
    (("class Mine", "class Mein"), "did you mean 'Mein'"),
    (("import numpy", "import numpi"), "numpi"),
    (("lr: float = 0.1", "lr: float = 1 / 0"), "ZeroDivisionError"),
    (("return self.State(x, grad(x))\n\n", "return x\n\n"), "Mine.init must return a NamedTuple"),
    (("- self.lr * state.g", "- self.lr * state.g.sum(axis=-1)"), "Mine.step"),
    (("self.lr * state.g\n", "(self.lr * state.g)[0]\n        x = x[0]\n"), "shape (10,)"),
    (("x = mix(state.x).wait()", "x = mix(state.x)"), "Mine.step failed: TypeError"),
    (("return self.State(x, grad(x))\n", "x = x.astype('f4')\n        return self.State(x, x)\n"),
     "dtype float32"),
    (("lr: float = 0.1", "lr: float = 0.1\n    tracks = True"), "needs s and g"),
    (("x = mix(state.x).wait()", "state.x[:] = 1; x = mix(state.x).wait()"), "read-only"),
    (("x = mix(state.x).wait()", "mix(state.g); x = mix(state.x).wait()"), "wait once"),
    (("mix(state.x).wait()", "mix(state.x[:1]).wait()"), "given to mix"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BROKEN_METHODS, ids=lambda value: str(value)[:30])
def test_broken_algorithm_says_what_and_where(module, capsys, change, message):
    name = module(METHOD, change)
    assert main(["run", *STACKED, "--algorithm", f"{name}:Mine", "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


BROKEN_PROBLEMS = [
    (("def evaluate", "def value"), "lacks evaluate()"),
    (("self.dim, self", "self.d, self"), "dim"),
    (("return x - x.dtype.type(self.centre)", "return (x - self.centre)[0]"), "Bowl.gradient has"),
    (("return x - x.dtype.type(self.centre)", "return None"), "Bowl.gradient is None"),
    (("return x - x.dtype.type(self.centre)", "return x - y"), "Bowl.gradient failed: NameError"),
    ((".sum(axis=-1)", ".sum()"), "the loss"),
    (("return 0.5 *", "return"), None),
    ((", x - self.centre", ""), "must return (loss, gradient)"),
    (
        ("    def evaluate", "    def accuracy(self, x):\n        return 1.0\n\n    def evaluate"),
        "Bowl.accuracy is a float",
    ),
    (
        ("    def evaluate", "    def facts(self):\n        return {1, 2}\n\n    def evaluate"),
        "Bowl.facts failed",
    ),
    (("self.dim, self.centre =", "raise KeyError('no'); self.dim, self.centre ="), "KeyError"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN_PROBLEMS, ids=lambda value: str(value)[:30])
def test_broken_problem_says_what_and_where(module, capsys, change, message):
    name = module(PROBLEM, change)
    code = main(["run", *STACKED, "--problem", f"{name}:Bowl", "--out", "run", "--quiet"])
    error = capsys.readouterr().err
    if message is None:  # a wrong formula is the user's affair
        assert code == 0
        return
    assert code == 2
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "spec",
    [
        "absent_module:Mine",
        "absent.module:Mine",
        "json:JSONDecoder",
        "os:getcwd",
        "json:",
        "gt:lr0.1",
    ],
)
def test_no_such_class(capsys, tmp_path, spec):
    assert main(["run", *STACKED, "--algorithm", spec, "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.count("mpi-gt: error:") == 1
