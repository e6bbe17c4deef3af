"""Where a run starts: the file of --x1, the problem's own start, and zeros."""

import numpy as np
import pytest
from support import facts

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.config import RunConfig
from mpi_gt.engine.build import build_stacked

N, SEEDS, DIM = 3, 2, 4
SOURCE = """
import numpy as np
from mpi_gt.problems.base import Problem

class Double(Problem):
    '''f(x) = sum x^4/4 - x^2/2: a saddle or a maximum at 0, minimisers at ±1.'''

    def __init__(self, place):
        self.dim, self.place = 4, place
        #init

    def gradient(self, t, x):
        return (x**3 - x).astype(x.dtype)

    def evaluate(self, x):
        return (x**4 / 4 - x**2 / 2).sum(axis=-1), x**3 - x
    #more
"""
STARTS = """
    def start(self, seed):
        x = self.place.random(seed, 1, shared=True).standard_normal(self.dim)
        #start
        return x
"""


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return {
        "stacked": True, "n": N, "seeds": SEEDS, "iterations": 1, "algorithm": "gt:lr=1e-300",
        "graph": "complete", "problem": "huber:dim=4",
    }  # fmt: skip


def write(source=SOURCE + STARTS, *change):
    source = source.replace(*change) if change else source
    with open("mine.py", "w") as file:  # noqa: PTH123
        file.write(source)


@pytest.mark.parametrize(
    "shape", [(DIM,), (N, DIM), (SEEDS, DIM), (N, SEEDS, DIM)], ids=lambda shape: f"{len(shape)}d"
)
def test_a_file_for_all_for_nodes_for_seeds_or_both(options, shape):
    x1 = np.random.default_rng(0).standard_normal(shape)
    np.save("x1.npy", x1)
    expected = x1[:, np.newaxis] if shape == (N, DIM) else x1
    made = build_stacked(RunConfig.of({**options, "x1": "x1.npy"})).x1
    np.testing.assert_array_equal(made, np.broadcast_to(expected, (N, SEEDS, DIM)))


def test_as_many_rows_as_nodes_are_the_nodes_with_a_warning(options, capsys):
    np.save("x1.npy", np.arange(12.0).reshape(3, 4))
    result = mpi_gt.run(**{**options, "seeds": 3}, x1="x1.npy")
    assert any("row i is the start of node i" in w for w in result.facts["warnings"])
    assert result.metrics[0]["consensus"] > 1


@pytest.mark.parametrize("shape", [(), (0,), (5,), (4, 4), (3, 2, 5), (2, 3, 4), (1, 3, 2, 4)])
def test_a_file_of_another_shape_is_refused(options, shape, capsys):
    np.save("x1.npy", np.zeros(shape))
    words = ["run", "--stacked", "-n", "3", "--seeds", "2", "--problem", "huber:dim=4"]
    assert main([*words, "--x1", "x1.npy", "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert "x1.npy" in error
    assert error.count("\n") == 1


def test_the_problem_s_own_start(options):
    write()
    result = mpi_gt.run(**{**options, "problem": "mine:Double"})
    expected = [np.random.Generator(np.random.Philox(
        key=np.array([seed, 1 << 32 | 0xFFFFFFFF], np.uint64))).standard_normal(4)
        for seed in range(SEEDS)]  # fmt: skip
    np.testing.assert_allclose(result.x, np.broadcast_to(expected, (N, SEEDS, DIM)), rtol=1e-12)
    np.save("x1.npy", np.full(4, 0.5))
    other = mpi_gt.run(**{**options, "problem": "mine:Double"}, x1="x1.npy")
    np.testing.assert_allclose(other.x, 0.5)
    assert not [w for w in result.facts["warnings"] if "gradient" in w]


WRONG = {
    "none": ("return x", "return None", "Double.start is None, not an array of shape (4,)"),
    "seeds": ("return x", "return np.zeros((2, 4))", "Double.start has shape (2, 4), not (4,)"),
    "nan": ("#start", "x[2] = np.nan", "Double.start(0): entry 2 is nan: x_1 must be finite"),
    "text": ("return x", "return np.array(list('abcd'))", "Double.start has dtype <U1"),
    "raise": ("#start", "raise KeyError(seed)", "Double.start failed: KeyError: 0"),
    "large": ("#start", "x = x * 1e200", "too large for float32"),
    "nodes": ("shared=True", "shared=False", "Double.start must return the same x_1 on every node"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_start_is_one_message(options, case, capsys):
    line, by, message = WRONG[case]
    write(SOURCE + STARTS, line, by)
    words = ["run", "--stacked", "-n", "3", "--seeds", "2", "--problem", "mine:Double"]
    assert main([*words, "--dtype", "float32", "--out", "run", "--quiet"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_each_node_may_have_its_own_start_if_the_class_says_so(options):
    write(SOURCE + "    start_differs = True\n" + STARTS, "shared=True", "shared=False")
    assert mpi_gt.run(**{**options, "problem": "mine:Double"}).metrics[0]["consensus"] > 0.1


def test_a_start_without_a_gradient_is_a_warning_once(options, capsys, tmp_path):
    write(SOURCE)
    words = ["compare", "--stacked", "-n", "3", "--seeds", "2", "--problem", "mine:Double"]
    words += ["--algorithms", "gt,dsgd", "--iterations", "3", "--out", "run", "--quiet"]
    assert main(words) == 0
    error = capsys.readouterr().err
    assert error.count("the gradient of f is zero at the start x_1 of seed 0") == 1
    assert "saddle point" in facts(tmp_path / "run")["warnings"][-1]
    np.save("x1.npy", np.full(4, 0.3))
    assert main([*words, "--overwrite", "--x1", "x1.npy"]) == 0
    assert "gradient" not in capsys.readouterr().err
    # near a saddle that is not at zero, rounding keeps the gradient from vanishing
    np.save("x1.npy", np.full(4, 1.0) / 3 * 3)
    assert main([*words, "--overwrite", "--x1", "x1.npy"]) == 0
    assert "the gradient of f is zero" in capsys.readouterr().err
