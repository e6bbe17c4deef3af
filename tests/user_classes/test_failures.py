"""Failures of users' code where it is not expected to be called, and of ours."""

import json
from functools import partial

import numpy as np
import pytest

import mpi_gt
from mpi_gt.algorithms.gt import GradientTracking
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.spec import split
from mpi_gt.user_classes.failures import describe_failure, reported_failures

METHOD = """
import sys
from typing import NamedTuple
import numpy as np

class Mine:
    class State(NamedTuple):
        x: np.ndarray
    #here
    def init(self, x, grad):
        return self.State(x)

    def step(self, t, state, mix, grad):
        return self.State(mix(state.x).wait() - 0.1 * grad(state.x))
"""
PROBLEM = """
import sys
import numpy as np

class Mine:
    dim = 3
    #here
    def __init__(self, place):
        self.asked = 0

    def gradient(self, t, x):
        return x - 1

    def evaluate(self, x):
        return ((x - 1) ** 2).sum(axis=-1), x - 1

    #end
"""
SOURCES = {"algorithm": METHOD, "problem": PROBLEM}
READ = {
    "algorithm": ("every", "kinds", "graph", "tracks", "needs_full", "varies", "phase"),
    "problem": ("dim", "exact", "batch", "rows", "metrics", "least_value", "facts"),
}
NO_INTEGER = "__import__('numpy').random.default_rng(0).integers(3, 1)"
VALUES = (
    ("algorithm", "kinds = (['A'],)", "Mine.kinds must be a tuple of text"),
    ("algorithm", "graph = np.zeros(2)", "Mine.graph must be text"),
    ("algorithm", "tracks = np.zeros(2)", "Mine.tracks must be true or false"),
    ("algorithm", "varies = np.zeros(2)", "Mine.varies must be true or false"),
    ("algorithm", "phase = 3", "Mine.phase must be a method"),
    ("algorithm", "phase = lambda self: 3", "Mine.phase failed: TypeError"),
    ("algorithm", "phase = lambda self, t: []", "Mine.phase failed: TypeError: unhashable"),
    ("problem", "exact = np.zeros(2)", "Mine.exact must be true or false"),
    ("problem", "facts = 3", "Mine.facts must be a method"),
    ("problem", "least_value = lambda self: 10**400", "Mine.least_value must be finite"),
    ("problem", "facts = lambda self: {'dim': np.ones(2)}", "says that dim is array"),
    ("problem", "metrics = lambda self, x: {'ﬁ': x[:, 0]}", "'ﬁ' cannot name a column"),
)


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """A function that runs a class with some lines more; it returns the one message."""
    monkeypatch.chdir(tmp_path)

    def run(kind, line, place="#here"):
        name = f"failing_{abs(hash((kind, line)))}"
        (tmp_path / f"{name}.py").write_text(SOURCES[kind].replace(place, line))
        words = ["--stacked", "-n", "3", "--iterations", "5", "--out", "o", "--quiet"]
        assert main(["run", *words, f"--{kind}={name}:Mine"]) == 2
        assert not (tmp_path / "o").exists()
        (message,) = capsys.readouterr().err.splitlines()
        return message

    return run


@pytest.mark.parametrize("what", ["sys.exit(0)", "raise RuntimeError('mine')"])
@pytest.mark.parametrize(
    ("kind", "name"), [(k, each) for k, names in READ.items() for each in names]
)
def test_an_attribute_that_fails_is_one_message(refused, kind, name, what):
    message = refused(kind, f"@property\n    def {name}(self):\n        {what}\n")
    assert name in message
    assert ("sys.exit was called" if "exit" in what else "RuntimeError: mine") in message


@pytest.mark.parametrize(("kind", "line", "message"), VALUES)
def test_an_attribute_that_cannot_be_used_is_one_message(refused, kind, line, message):
    assert message in refused(kind, line)


def test_attributes_of_an_object_are_checked_as_those_of_a_class(tmp_path):
    class Mine(GradientTracking):
        kinds = (["A"],)

    with pytest.raises(UserError, match=r"Mine\.kinds must be a tuple of text"):
        mpi_gt.run(stacked=True, n=3, iterations=5, algorithm=Mine(), out=str(tmp_path / "o"))


def test_one_that_fails_later_is_one_message_too(refused):
    """Whatever of ours calls it then: the message has the name of the user's function."""
    later = "self.asked += 1\n        return 3 if self.asked < 3 else sys.exit()"
    message = refused("problem", f"@property\n    def dim(self):\n        {later}")
    assert "dim failed: sys.exit was called" in message


@pytest.mark.parametrize("line", ["def gradient(self, t, x): return np.matrix(x)",
                                  "async def gradient(self, t, x): return x"])  # fmt: skip
def test_results_that_are_no_plain_arrays_are_refused(refused, line):
    assert "Mine.gradient is a" in refused("problem", line, "#end")


def users_function(tmp_path, body):
    """Return a function of a file that is none of ours."""
    names = {}
    exec(compile(f"def mine():\n    {body}\n", tmp_path / "mine.py", "exec"), names)
    return names["mine"]


def test_a_failure_of_the_users_becomes_a_message(tmp_path):
    mine = users_function(tmp_path, "raise SystemExit(0)")
    with pytest.raises(UserError, match=r"mine failed: sys.exit was called \(.*mine.py, line 2\)"):
        reported_failures("this")(mine)()


@pytest.mark.parametrize("body", ["__import__('json').loads('{')", NO_INTEGER])
def test_a_message_names_the_users_line_that_called_an_installed_package(tmp_path, body):
    with pytest.raises(UserError, match=r"mine failed: \w+Error: .*mine.py, line 2\)"):
        reported_failures("this")(users_function(tmp_path, body))()


@pytest.mark.parametrize(
    "fail",
    [
        partial(int, "no number"),
        partial(json.loads, "no JSON"),
        partial(np.linalg.inv, np.zeros((2, 2))),
        partial(np.random.default_rng(0).integers, 3, 1),  # Cython's frames name no folder
        partial(split, None),
    ],
)
def test_a_failure_of_ours_is_not_taken_for_the_users(fail):
    """The decorator calls it: a frame of this file would count as one of the user's."""
    with pytest.raises((ValueError, AttributeError, TypeError)) as caught:
        reported_failures("this")(fail)()
    text, trace = describe_failure(caught.value)
    assert text == repr(caught.value)
    assert "test_failures.py" in trace
    assert not hasattr(caught.value, "user_call")


def test_the_traceback_of_a_failure_has_the_users_frames_only(tmp_path, monkeypatch):
    from mpi_gt.user_classes import failures

    # what these frames are called by counts as ours
    monkeypatch.setattr(failures, "is_own_file", lambda name: name in (__file__, "ours"))
    try:
        users_function(tmp_path, "1 // 0")()
    except ZeroDivisionError as error:
        text, trace = describe_failure(error)
    assert text.startswith("mine: ZeroDivisionError")
    assert trace.count("File ") == 1
