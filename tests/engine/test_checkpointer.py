"""When a run writes checkpoints, and the stop file."""

import signal
import threading
import time

import pytest
from resuming import run, table

import mpi_gt
from mpi_gt.errors import Stopped
from mpi_gt.rundir.checkpoint import glance, part_path
from mpi_gt.rundir.run_json import read_facts


def test_minutes(tmp_path):
    out = tmp_path / "run"
    run(out, "--iterations", "3000", "--checkpoint-minutes", "0.001")
    iterations = [glance(part_path(out, slot, 0))["iteration"] for slot in (0, 1)]
    assert max(iterations) == 3000
    assert 0 < min(iterations) < 3000


def test_the_stop_file_and_the_api(tmp_path):
    """Without the command line no signal is caught, but the file stops the run."""
    out = tmp_path / "run"
    options = {"stacked": True, "n": 4, "log_every": 7, "seeds": 2, "out": str(out)}

    def ask():
        while not (out / "metrics.csv").exists() or len(table(out)) < 4:
            time.sleep(0.01)
        (out / "stop").touch()

    threading.Thread(target=ask).start()
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)]
    with pytest.raises(Stopped):
        mpi_gt.run(**options, iterations=10**8)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)] == handlers
    at = read_facts(out)["stopped"]["iteration"]
    mpi_gt.run(**{**options, "iterations": at + 10, "resume": True})
    assert not (out / "stop").exists()
    assert [row["iteration"] for row in table(out)][-1] == str(at + 10)
