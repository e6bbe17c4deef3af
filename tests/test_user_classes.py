"""Users' own algorithms and problems, sound and broken."""

import csv
import textwrap

import numpy as np
import pytest

from mpi_gt.cli.main import main

STACKED = ["--stacked", "-n", "4", "--iterations", "50", "--seeds", "2"]


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
    """A function that writes a module into the working directory, under a unique name."""
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
    (("mix(state.x).wait()", "mix(state.x[:1]).wait()"), "argument of mix"),
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
    if message is None:  # a wrong formula is not our business
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
