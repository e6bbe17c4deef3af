"""Runs on ranks of their own from Python: `launch`, `resume`, and what can go wrong."""

import signal
import textwrap

import pytest
from support import facts, finish, ranks_of, start, wait_for

METHOD = """
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpi_gt.algorithms.base import Algorithm


@dataclass(frozen=True)
class Normalised(Algorithm):
    fails_at: int = 0

    class State(NamedTuple):
        x: np.ndarray
        g: np.ndarray

    def init(self, x, grad):
        return self.State(x, grad(x))

    def step(self, t, state, mix, grad):
        size = np.sqrt((state.g**2).sum(axis=1, keepdims=True))
        x = mix(state.x - self.rate(t) * state.g / size).wait()
        if t == self.fails_at:
            raise ZeroDivisionError("on purpose")
        return self.State(x, grad(x))
"""
SCRIPT = """
import sys

import networkx as nx
import numpy as np

import mpi_gt
from elsewhere.methods import Normalised


class Mine(Normalised):
    pass


if __name__ == "__main__":
{body}
"""


@pytest.fixture
def script(tmp_path):
    """A function that writes a script with a class of its own, and returns its words."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "methods.py").write_text(METHOD)

    def write(mpi, body):
        text = SCRIPT.format(body=textwrap.indent(textwrap.dedent(body), "    "))
        (tmp_path / "script.py").write_text(text)
        return [mpi.python, "script.py"]

    return write


def test_a_launch_gives_the_result_of_the_command(mpi, call, script, tmp_path):
    body = """
    options = dict(n=4, iterations=40, seeds=2, graph=nx.star_graph(3), x1=np.ones(10))
    made = mpi_gt.launch(**options, algorithm=Mine(lr=0.1), out="made")
    stacked = mpi_gt.run(stacked=True, **options, algorithm=Mine(lr=0.1))
    assert (made.x == stacked.x).all(), "not the bits of a stacked run node by node"
    assert made.x.shape == (4, 2, 10)
    def metrics(result):
        return [{k: v for k, v in row.items() if k != "seconds"} for row in result.metrics]
    for ours, theirs in zip(metrics(made), metrics(stacked), strict=True):
        assert ours.keys() == theirs.keys() and ours["bytes"] == theirs["bytes"]
        assert abs(ours["gap"] - theirs["gap"]) < 1e-12
    assert made.facts["status"] == "finished"
    several = mpi_gt.launch(n=3, iterations=10, algorithms=[Normalised(), "gt:lr=0.5"],
                            mpirun_args=["-n", "3"])
    assert list(several.outputs) == ["Normalised", "gt"], several
    print(several.directory)
    """
    done = call(script(mpi, body), cwd=tmp_path)
    assert done.err == ""  # no terminal: no progress
    assert facts(tmp_path / "made")["config"]["algorithm"] == "script.py:Mine:lr=0.1"
    assert "/runs/" in done.out
    words = ["run", "-n", "4", "--iterations", "40", "--seeds", "2", "--quiet", "--out", "typed"]
    inputs = {path.suffix: path for path in (tmp_path / "made" / "inputs").iterdir()}
    words += ["--graph", inputs[".edges"], "--x1", inputs[".npy"]]
    call(mpi.mpi_gt(*words, "--algorithm", "script.py:Mine:lr=0.1"), cwd=tmp_path)
    same = [(tmp_path / name / "final.npz").read_bytes() for name in ("made", "typed")]
    assert same[0] == same[1]


def test_a_launch_that_goes_on_can_be_watched_stopped_and_resumed(openmpi, call, script, tmp_path):
    body = """
    import time
    going = mpi_gt.launch(n=3, iterations=10**7, algorithm=Mine(lr=0.1), out="a", wait=False)
    assert going.status() in ("starting", "running"), going
    while going.status() == "starting":
        time.sleep(0.05)
    assert not going.wait(0.1)
    try:
        going.result(timeout=0.1)
    except TimeoutError as error:
        assert "still running" in str(error)
    else:
        raise AssertionError
    going.stop()
    assert going.status() == "stopped"
    going.stop()  # once more does nothing
    try:
        going.result()
    except mpi_gt.Stopped as stopped:
        message = str(stopped)
    assert "mpi-gt resume a" in message, message
    at = int(message.split("iteration ")[1].split()[0])
    more = mpi_gt.resume("a", iterations=at + 20)
    assert mpi_gt.resume("a").x.tolist() == more.x.tolist()  # finished: it is read
    whole = mpi_gt.launch(n=3, iterations=at + 20, algorithm=Mine(lr=0.1), log_every=10**6)
    assert (more.x == whole.x).all()
    """
    body = body.replace("iterations=10**7,", "iterations=10**7, log_every=10**6,")
    call(script(openmpi, body), cwd=tmp_path)


def test_failures_are_exceptions_with_the_message_of_the_run(openmpi, call, script, tmp_path):
    body = """
    def failure(**options):
        try:
            mpi_gt.launch(**{"n": 3, "iterations": 20, **options})
        except Exception as error:
            return f"{type(error).__name__} {getattr(error, 'exit_code', None)}: {error}"

    print(failure(graph="rnig"))
    print(failure(graph="nx.empty_graph"))
    print(failure(n=None))
    print(failure(algorithm="gt:lr=1e300"))
    print(failure(algorithm=Mine(fails_at=5)))
    print(failure(x1=np.ones(3), out="never"))
    print(failure(mpirun_args="'"))
    print(failure(hostfile="missing"))
    """
    done = call(script(openmpi, body), cwd=tmp_path)
    lines = done.out.splitlines()
    assert lines[0].startswith("UserError 2: 'rnig' is neither a file nor a known graph")
    assert lines[1].startswith("UserError 2: the graph is not connected")
    assert lines[2].startswith("UserError 2: how many nodes?")
    assert lines[3].startswith("Diverged 3: gt: a value is not finite")
    assert lines[4].startswith("RunFailed 1: the run did not finish: rank ")
    assert "Mine.step at iteration 5: ZeroDivisionError: on purpose" in lines[4]
    assert "3 dimensions, but the problem has 10" in lines[5]
    assert "No closing quotation" in lines[6]
    assert "missing" in lines[7]
    assert not (tmp_path / "never").exists()
    assert done.err.count("Traceback") == 1  # of the user's own frames


def test_what_cannot_travel_is_refused(openmpi, call, script, tmp_path):
    body = """
    class Local(Mine):
        pass

    def refused(**options):
        try:
            mpi_gt.launch(n=3, **options)
        except mpi_gt.UserError as error:
            return str(error)

    def inside():
        class Local(Mine):
            pass
        return Local

    print(refused(algorithm=inside()()))
    print(refused(algorithm=(Mine, {"lr": [1]})))
    print(refused(problem=Mine()))
    first = Local()
    class Local(Mine):
        pass
    print(refused(algorithm=first))
    """
    lines = call(script(openmpi, body), cwd=tmp_path).out.splitlines()
    assert "is defined inside a function" in lines[0]
    assert "option lr must be a number" in lines[1]
    assert "pass its class" in lines[2]
    assert "another Local by now" in lines[3]
    assert not (tmp_path / "runs").exists()


def test_a_script_without_a_guard_does_not_start_itself_again(openmpi, call, script, tmp_path):
    words = script(openmpi, "pass")
    path = tmp_path / "script.py"
    text = path.read_text() + "\nmpi_gt.launch(n=3, iterations=5, algorithm=Mine())\n"
    path.write_text(text)
    done = call(words, cwd=tmp_path, expect=1)
    assert 'below `if __name__ == "__main__":`' in done.err.splitlines()[-1]


def test_ctrl_c_stops_at_a_checkpoint_and_resume_gives_the_same_bits(mpi, call, script, tmp_path):
    body = """
    options = dict(n=3, iterations=3000, algorithm=Mine(lr=0.1), log_every=100)
    try:
        mpi_gt.launch(**options, out="cut")
    except KeyboardInterrupt as error:
        assert isinstance(error, mpi_gt.Stopped)
        assert "mpi-gt resume cut" in str(error)
    else:
        raise AssertionError("it was not interrupted")
    cut, whole = mpi_gt.resume("cut"), mpi_gt.launch(**options)
    assert cut.facts["resumes"]
    assert (cut.x == whole.x).all()
    """
    process = start(script(mpi, body), cwd=tmp_path)
    table = tmp_path / "cut" / "metrics.csv"
    wait_for(lambda: table.exists() and len(table.read_text().splitlines()) > 2)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.code == 0, str(done)
    assert "stopping the run" in done.err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_stops_with_the_process_that_launched_it(openmpi, script, tmp_path, number):
    body = """
    mpi_gt.launch(n=3, iterations=10**7, out="a", log_every=1000, wait=False).wait()
    """
    process = start(script(openmpi, body), cwd=tmp_path)
    table = tmp_path / "a" / "metrics.csv"
    wait_for(lambda: table.exists() and len(table.read_text().splitlines()) > 2)
    process.send_signal(number)
    finish(process)
    wait_for(lambda: facts(tmp_path / "a")["status"] == "stopped")
    wait_for(lambda: not ranks_of(tmp_path / "a"))


def test_under_mpirun_a_launch_is_refused(openmpi, call, script, tmp_path):
    words = script(openmpi, "mpi_gt.launch(n=3)")
    done = call(openmpi.mpirun(1, *words), cwd=tmp_path, expect=None)
    assert done.code != 0
    assert "launch starts ranks of its own, and this is one already" in done.err


def test_one_process_without_mpirun_is_no_silent_run_of_one_node(openmpi, call, script, tmp_path):
    body = """
    from mpi4py import MPI

    mpi_gt.run(MPI.COMM_WORLD, iterations=5, {}problem="huber")
    """
    done = call(script(openmpi, body.format("")), cwd=tmp_path)
    assert "script.py:" in done.err  # the line of the call
    assert "one MPI process, so the run has one node" in done.err
    assert call(script(openmpi, body.format("n=1, ")), cwd=tmp_path).err == ""
    own = call(openmpi.mpirun(1, *script(openmpi, body.format(""))), cwd=tmp_path)
    assert own.err == ""


def test_a_class_that_fails_on_a_communicator_of_yours_is_one_message(mpi, call, script, tmp_path):
    body = """
    from mpi4py import MPI

    mine = Mine(lr=0.1, fails_at=3)
    mpi_gt.run(MPI.COMM_WORLD, iterations=5, algorithm=mine, out="failed")
    """
    done = call(mpi.mpirun(3, *script(mpi, body)), cwd=tmp_path, expect=None, limit=60)
    assert done.code != 0
    assert done.err.count("Traceback") == 1
    assert "ZeroDivisionError: on purpose\nin Mine.step at iteration 3, on rank 0\n" in done.err
    assert "engine" not in done.err
    told = facts(tmp_path / "failed")
    assert told["status"] == "failed"
    assert told["error"].startswith("Mine.step at iteration 3: ZeroDivisionError: on purpose")


def test_a_class_that_fails_on_one_rank_says_that_others_may_wait(openmpi, call, script, tmp_path):
    body = """
    from mpi4py import MPI

    comm = MPI.COMM_WORLD

    class Odd(Mine):
        def step(self, t, state, mix, grad):
            return super().step(t if comm.rank == 1 else 0, state, mix, grad)

    try:
        mpi_gt.run(comm, iterations=5, algorithm=Odd(fails_at=3))
    except ZeroDivisionError as error:
        print(*error.__notes__, flush=True)
        comm.Abort(3)
    """
    done = call(openmpi.mpirun(3, *script(openmpi, body)), cwd=tmp_path, expect=None, limit=60)
    assert done.code == 3
    assert "the other ranks have not failed" in done.out
    assert "in Odd.step at iteration 3, on rank 1" in done.out
