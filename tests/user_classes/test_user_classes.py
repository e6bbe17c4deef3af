"""Users' own algorithms and problems, sound and broken."""

import csv
import textwrap
import time

import numpy as np
import pytest
from support import facts

from mpi_gt import user_classes
from mpi_gt.cli.main import main

STACKED = ["--stacked", "-n", "4", "--iterations", "50", "--seeds", "2"]


METHOD = """
import sys
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
import sys
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
        # node by node the sums are added up as on ranks, and all at once by BLAS
        np.testing.assert_allclose(file["Mine"], file["dsgd"], rtol=0, atol=1e-14)


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
    (("mix(state.x).wait()", "mix(state.x[:1]).wait()"), "Mine.step: the argument of mix"),
    (("x = mix(state.x).wait()", "mix(); x = mix(state.x).wait()"), "Mine.step: mix was called"),
    (("import sys", "import sys; sys.exit(0)"), "importing the module failed: sys.exit was called"),
    (("import sys", "import sys; raise BaseException('odd')"), "BaseException: odd"),
    (("import sys", "def ("), "importing the module failed: SyntaxError"),
    (("lr: float = 0.1", "lr: 'sys.exit(0)' = 0.1"), "signature failed: sys.exit was called"),
    (("lr: float = 0.1", "lr: float = 0.1\n    def __post_init__(self): sys.exit(0)"),
     "the constructor of algorithm Mine failed: sys.exit was called"),
    (("return self.State(x, grad(x))\n\n", "sys.exit('bye')\n\n"), "Mine.init failed: sys.exit"),
    (("x = mix(state.x).wait()", "sys.exit(); x = mix(state.x).wait()"), "Mine.step failed: sys.e"),
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
        "Bowl.facts must return a dictionary",
    ),
    (("self.dim, self.centre =", "raise KeyError('no'); self.dim, self.centre ="), "KeyError"),
    (("self.dim, self.centre =", "sys.exit(0); self.dim, self.centre ="),
     "the constructor of problem Bowl failed: sys.exit was called"),
    (("self.dim, self.centre =", "np.zeros(10**15); self.dim, self.centre ="),
     "the constructor of problem Bowl does not fit into memory"),
    *((("self.dim, self", f"self.dim, _ = {dim}, 0; _, self"), f"problem Bowl: dim must be {why}")
      for dim, why in [("-3", "at least 1"), ("True", "a whole number, not a bool"),
                       ("3.0", "a whole number, not a float"), ("10**5000", "at most")]),
    (("self.dim, self", "self.dim, _ = 10**12, 0; _, self"), "1,000,000,000,000 dimensions needs"),
    (("self.dim, self", "self.dim, _ = 3 + place.node, 0; _, self"), "3 on node 0 and 4 on node 1"),
    *((("return 0.5 *", f"return {loss}, x\n        return 0.5 *"), f"the loss has dtype {dtype}")
      for loss, dtype in [("np.zeros(2, complex)", "complex128"), ("np.array(['a', 'b'])", "<U1"),
                          ("np.array([None, None])", "object")]),
    (("return 0.5 *", "sys.exit(0); return 0.5 *"), "Bowl.evaluate failed: sys.exit was called"),
    *((("    def evaluate", f"    def facts(self): {facts}\n\n    def evaluate"), message)
      for facts, message in [
          ("return None", "Bowl.facts must return a dictionary with names as keys, not None"),
          ("return [1]", "Bowl.facts must return a dictionary with names as keys, not a list"),
          ("return {1: 2}", "Bowl.facts must return a dictionary with names as keys"),
          ("return {'a': np.nan}", "Bowl.facts must return finite values"),
          ("return {'a': np.int64(1)}", "Bowl.facts must return finite values that JSON can hold"),
          ("return {'dim': 17}", "Bowl.facts says that dim is 17"),
          ("return {'rows_dropped': 3}", "needs rows_per_node"),
          ("sys.exit(0)", "Bowl.facts failed: sys.exit"),
      ]),
    *((("    def evaluate", "    @classmethod\n    def parts(cls, nodes, **options):\n"
        f"        {parts}\n\n    def evaluate"), f"problem Bowl: parts {message}")
      for parts, message in [
          ("return 3", "must return a list of 4 parts, one per node, or None, not an int"),
          ("return (i for i in range(nodes))", "must return a list of 4 parts"),
          ("return np.zeros(nodes)", "must return a list of 4 parts"),
          ("return []", "gave 0 parts for 4 nodes"),
          ("sys.exit(0)", "failed: sys.exit was called"),
      ]),
    (("    def evaluate", "    @classmethod\n    def prepare(cls, *a, **b): sys.exit(0)\n\n"
      "    def evaluate"), "problem Bowl: prepare failed: sys.exit was called"),
]  # fmt: skip


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


def test_facts_and_parts_of_a_sound_problem(module, tmp_path):
    change = (
        "    def evaluate",
        "    def facts(self):\n        return {'dim': self.dim, 'of': [1, {'a': None}]}\n\n"
        "    @classmethod\n    def parts(cls, nodes, **options):\n        return tuple('abcd')\n\n"
        "    def evaluate",
    )
    name = module(PROBLEM, change)
    words = ["run", *STACKED, "--problem", f"{name}:Bowl", "--out", "run", "--quiet"]
    assert main(words) == 0
    assert facts(tmp_path / "run")["problem"] == {"dim": 3, "of": [1, {"a": None}]}


def test_a_call_that_takes_long_is_named_once(capsys, monkeypatch):
    monkeypatch.setattr(user_classes, "SILENCE", 0.05)
    with user_classes.announced("the import of mine"):
        time.sleep(0.3)
    with user_classes.announced("something short"):
        pass
    time.sleep(0.1)
    assert capsys.readouterr().err == "mpi-gt: still waiting for the import of mine, after 0 s\n"
    monkeypatch.setenv("PMI_RANK", "3")
    with user_classes.announced("another rank"):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
