"""Users' classes that fail on real ranks: one message from one rank, and no hang."""

import pytest
from support import facts

SOURCE = """
import sys
import numpy as np
from mpi4py import MPI
from mpi_gt.algorithms.dsgd import DSGD

class Mine(DSGD):
    def step(self, t, state, mix, grad):
        last = MPI.COMM_WORLD.rank == MPI.COMM_WORLD.size - 1
        #step
        x = mix(state.x).wait() - self.lr * state.g
        return self.State(x, grad(x))

class Bowl:
    def __init__(self, place):
        self.dim = 3
        #init

    @classmethod
    def parts(cls, nodes):
        return [cls] * nodes

    def gradient(self, t, x):
        return x - 1

    def evaluate(self, x):
        return ((x - 1) ** 2).sum(axis=-1), x - 1
"""

BEFORE = {
    "exit": (
        "#init",
        "if place.node == 2: sys.exit(0)",
        "problem Bowl failed: sys.exit was called",
    ),
    "dim": ("#init", "self.dim += place.node", "3 on node 0 and 4 on node 1"),
    "parts": ("[cls]", "[lambda: 1]", "sending what mine:Bowl.parts returned to the ranks failed"),
    "memory": ("#init", "np.zeros(10**15)", "Bowl does not fit into memory: Unable to allocate"),
    "mix": ("#step", "if last: mix(state.x).wait()", "[1] on node 0 and [1, 1] on node 2"),
}
DURING = {
    "raise": ("#step", "if t == 7: raise KeyError('odd')", "KeyError: 'odd'"),
    "exit of one": ("#step", "if t == 7 and last: sys.exit(0)", "sys.exit was called"),
    "more": ("#step", "if t == 7 and last: mix(state.x).wait()", "call 2 of mix had 0 vectors"),
}


def run(mpi, call, folder, change, expect):
    (folder / "mine.py").write_text(SOURCE.replace(*change))
    words = ["run", "-n", "3", "--iterations", "20", "--quiet", "--out", "run"]
    words += ["--algorithm", "mine:Mine", "--problem", "mine:Bowl"]
    return call(mpi.mpi_gt(*words), cwd=folder, expect=expect, limit=60)


@pytest.mark.parametrize("case", BEFORE)
def test_before_the_iterations(openmpi, case, call, tmp_path):
    *change, message = BEFORE[case]
    done = run(openmpi, call, tmp_path, change, expect=2)
    assert message in done.err, str(done)
    assert done.err.count("\n") == 1, str(done)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("case", DURING)
def test_during_the_iterations(openmpi, case, call, tmp_path):
    require_one_traceback(openmpi, call, tmp_path, case)


def test_during_the_iterations_with_mpich(mpich, call, tmp_path):
    require_one_traceback(mpich, call, tmp_path, "raise")


def require_one_traceback(mpi, call, folder, case):
    *change, message = DURING[case]
    done = run(mpi, call, folder, change, expect=1)
    assert done.err.count("Traceback") == 1, str(done)
    assert done.err.count("  File ") == 1, str(done)
    assert done.err.count("mpi-gt: error: ") == 1, str(done)
    assert message in done.err, str(done)
    assert facts(folder / "run")["status"] == "failed"
    assert "Mine.step at iteration 7" in facts(folder / "run")["error"]
