"""Users' classes that fail only during the iterations."""

import numpy as np
import pytest
from support import facts

from mpi_gt.cli.main import main

SOURCE = """
import sys
from typing import NamedTuple
import numpy as np
from mpi_gt import UserError

class Mine:
    class State(NamedTuple):
        x: np.ndarray
        g: np.ndarray

    class Other(NamedTuple):
        x: np.ndarray

    def init(self, x, grad):
        return self.State(x, grad(x))

    def step(self, t, state, mix, grad):
        late = t == 7
        #before
        x = mix(state.x).wait() - 0.1 * state.g
        #after
        return self.State(x, grad(x))

class Bowl:
    dim = 3
    calls = 0

    def __init__(self, place):
        pass

    def gradient(self, t, x):
        late = t == 7
        #gradient
        return x - 1

    def evaluate(self, x):
        self.calls += 1
        late = self.calls == 4
        #evaluate
        return ((x - 1) ** 2).sum(axis=-1), x - 1

    def accuracy(self, x):
        late = self.calls == 4
        #accuracy
        return np.zeros(len(x))
"""

RETURNED = {
    "dtype": ("#after", "if late: x = x.astype('f4')", "Mine.step: x has dtype float32"),
    "shape": ("#after", "if late: x = x[..., :1]", "Mine.step: x has shape (2, 1), not (2, 3)"),
    "none": ("#after", "if late: return None", "Mine.step must return a NamedTuple"),
    "tuple": ("#after", "if late: return x, x", "Mine.step must return a NamedTuple"),
    "fields": ("#after", "if late: return self.Other(x)", "has the fields x, but had x, g"),
    "seldom": ("x = mix(state.x).wait()", "x = state.x if late else mix(state.x).wait()",
               "Mine.step called mix 1 times in the first step and 0 now"),
    "gradient": ("#gradient", "if late: return x.astype('f4')", "Bowl.gradient has dtype float32"),
    "no gradient": ("#gradient", "if late: return None", "Bowl.gradient is None"),
    "evaluate": ("#evaluate", "if late: return x", "Bowl.evaluate must return (loss, gradient)"),
    "complex": ("#evaluate", "if late: return 1j * x[:, 0], x", "the loss has dtype complex128"),
    "accuracy": ("#accuracy", "if late: return 'good'", "Bowl.accuracy is a str"),
}  # fmt: skip

RAISED = {
    "exit": ("#before", "if late: sys.exit(0)", "SystemExit: 0"),
    "ours": ("#before", "if late: raise UserError('no')", "UserError: no"),
    "memory": ("#before", "if late: raise MemoryError", "MemoryError"),
    "write": ("#before", "if late: state.x[:] = 0", "read-only"),
    "write gradient": ("#before", "if late: state.g[:] = 0", "read-only"),
    "write x": ("#gradient", "if late: x[:] = 0", "read-only"),
    "gradient exit": ("#gradient", "if late: sys.exit(3)", "SystemExit: 3"),
    "evaluate exit": ("#evaluate", "if late: sys.exit(3)", "SystemExit: 3"),
    "more": ("#after", "if late: mix(x)", "call 2 of mix had 0 vectors in the first step"),
    "two": ("mix(state.x)", "mix(*[state.x] * (1 + late))[0]", "has 2 now: every step must mix"),
    "mixed dtype": ("#before", "if late: mix(state.x.astype('f4'))", "argument of mix has dtype"),
}  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs the classes stacked, with a line of them replaced."""
    monkeypatch.chdir(tmp_path)

    def run(line, by, source=SOURCE):
        assert line in source
        source = source.replace(line, by)
        (tmp_path / "mine.py").write_text(source)
        words = ["run", "--stacked", "-n", "3", "--iterations", "20", "--log-every", "2"]
        words += ["--seeds", "2", "--algorithm", "mine:Mine", "--problem", "mine:Bowl"]
        return main([*words, "--quiet", "--out", "run"])

    return run


def test_classes_that_never_fail(run, tmp_path):
    assert run("late", "late") == 0
    x = np.load(tmp_path / "run" / "final.npz")["x"]
    np.testing.assert_allclose(x, np.broadcast_to(1 - 0.9**20, (3, 2, 3)))


@pytest.mark.parametrize("case", RETURNED)
def test_a_wrong_result_is_one_line(run, case, capsys, tmp_path):
    line, by, message = RETURNED[case]
    assert run(line, by) == 1
    error = capsys.readouterr().err
    assert error.startswith("mpi-gt: error: ")
    assert message in error
    assert error.count("\n") == 1
    assert facts(tmp_path / "run")["status"] == "failed"
    assert message in facts(tmp_path / "run")["error"]


@pytest.mark.parametrize("case", RAISED)
def test_an_exception_shows_the_user_s_frames_only(run, case, capsys, tmp_path):
    line, by, message = RAISED[case]
    assert run(line, by) == 1
    error = capsys.readouterr().err
    assert error.count("mpi-gt: error: ") == error.count("Traceback") == 1
    assert error.count("  File ") == error.count('mine.py", line')
    assert message in error.splitlines()[-1]
    assert "mine.py" in facts(tmp_path / "run")["error"]


VARYING = SOURCE.replace("class Mine:", "class Mine:\n    varies = True")


def test_a_class_may_declare_that_its_exchanges_vary(run):
    assert run("#after", "if late: x = mix(x).wait()", VARYING) == 0


def test_each_step_needs_an_exchange(run, capsys):
    assert run("mix(state.x).wait()", "(state.x if late else mix(state.x).wait())", VARYING) == 1
    assert "called mix 1 times in the first step and 0 now" in capsys.readouterr().err


def test_built_in_classes_are_not_guarded(monkeypatch):
    import mpi_gt

    monkeypatch.setattr("mpi_gt.engine.loop.GuardedAlgorithm", None)
    monkeypatch.setattr("mpi_gt.engine.build.GuardedProblem", None)
    assert mpi_gt.run(stacked=True, n=3, iterations=2).facts["status"] == "finished"
