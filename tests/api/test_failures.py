"""Users' classes that fail in a run of this process."""

import json
import sys
import traceback

import pytest

import mpi_gt
from mpi_gt.algorithms import ALGORITHMS

DSGD = ALGORITHMS["dsgd"]


class Failing(DSGD):
    how = staticmethod(lambda: None)

    def step(self, t, state, mix, grad):
        if t == 3:
            self.how()
        x = mix(state.x).wait() - self.lr * state.g
        return self.State(x, grad(x))


class Raising(Failing):
    how = staticmethod(lambda: 1 / 0)


class Leaving(Failing):
    how = staticmethod(lambda: sys.exit(0))


def fail(method, tmp_path):
    mpi_gt.run(stacked=True, n=3, iterations=5, algorithm=method(), out=str(tmp_path / "run"))


def end(tmp_path):
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    return facts["status"], facts["error"]


def test_an_exception_is_the_users_own_with_its_frames_and_run_json_says_it(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        fail(Raising, tmp_path)
    assert caught.value.__notes__ == ["in Raising.step at iteration 3"]
    files = {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert not [file for file in files if "/engine/" in file or "/comm/" in file]
    assert __file__ in files
    status, error = end(tmp_path)
    assert status == "failed"
    assert error.startswith("Raising.step at iteration 3: ZeroDivisionError")
    # this process goes on, but the run does not
    assert mpi_gt.load(tmp_path / "run").summary_rows[0]["status"] == "failed"


def test_sys_exit_in_a_step_does_not_end_the_caller_without_a_word(tmp_path):
    with pytest.raises(mpi_gt.RunFailed, match=r"iteration 3: sys\.exit was called") as caught:
        fail(Leaving, tmp_path)
    assert caught.value.__suppress_context__
    assert end(tmp_path)[0] == "failed"


def test_the_failure_of_a_run_leaves_the_run_of_another_process_alone(tmp_path):
    from mpi_gt.api.failures import failure

    (tmp_path / "run.json").write_text(
        json.dumps({"status": "running", "process": {"host": "another-host", "pid": 1}})
    )
    failure(ValueError("odd"), None, str(tmp_path))
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "running"
