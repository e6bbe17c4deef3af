"""Signals to a run on real ranks, killed ranks, and what a killed launch leaves behind."""

import contextlib
import os
import signal
import socket
import subprocess
import time

import pytest
from support import (
    facts,
    finish,
    ranks_of,
    skip_without_root,
    start,
    wait_for,
)

from mpi_gt.rundir.host_folder import clean_up


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_the_run_and_the_status_tells_the_truth(mpi, number, tmp_path):
    out = tmp_path / "run"
    words = mpi.mpi_gt("run", "-n", "4", "--iterations", "10000000", "--out", out, "--quiet",
                       "--log-every", "50")  # fmt: skip
    process = start(words)
    rows = out / "metrics.csv"
    wait_for(lambda: rows.exists() and len(rows.read_text().splitlines()) > 2)
    process.send_signal(number)
    done = finish(process, limit=30)
    assert done.code == 85, str(done)
    assert done.err.count("mpi-gt") == 2, str(done)  # the prefix, and the command to resume
    assert f"mpi-gt resume {out}" in done.err
    assert facts(out)["status"] == "stopped"
    assert len(rows.read_text().splitlines()) > 2


def test_a_second_interrupt_ends_at_once(openmpi, tmp_path):
    """Even if a rank cannot stop, here because it is suspended."""
    out = tmp_path / "run"
    words = openmpi.mpi_gt("run", "-n", "3", "--iterations", "10000000", "--out", out, "--quiet",
                           "--log-every", "50")  # fmt: skip
    process = start(words)
    rows = out / "metrics.csv"
    wait_for(lambda: rows.exists() and len(rows.read_text().splitlines()) > 2)
    stuck = ranks_of(out)[-1]
    os.kill(stuck, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    done = finish(process, limit=15)
    # the end of mpirun may wake the suspended rank, and then all of them just stop in time
    assert done.code in (130, 85), str(done)
    assert facts(out)["status"] in ("failed", "stopped")
    with contextlib.suppress(ProcessLookupError):
        os.kill(stuck, signal.SIGKILL)


def test_an_interrupt_before_the_ranks_are_up(openmpi, tmp_path):
    out = tmp_path / "run"
    process = start(openmpi.mpi_gt("run", "-n", "3", "--iterations", "1000000", "--out", out))
    wait_for(lambda: (out / "run.json").exists())
    assert facts(out)["status"] == "running"  # before the first rank
    process.send_signal(signal.SIGINT)
    done = finish(process, limit=15)
    assert done.code in (130, 85), str(done)
    assert facts(out)["status"] == ("failed" if done.code == 130 else "stopped")


def test_a_killed_rank_ends_the_launch(mpi, tmp_path):
    out = tmp_path / "run"
    words = ["run", "-n", "4", "--iterations", "10000000", "--out", out, "--quiet"]
    process = start(mpi.mpi_gt(*words, "--log-every", "50"))
    rows = out / "metrics.csv"
    wait_for(lambda: rows.exists() and len(rows.read_text().splitlines()) > 2)
    os.kill(ranks_of(out)[0], signal.SIGKILL)
    done = finish(process, limit=15)
    assert done.code not in (0, 2, 3), str(done)
    assert facts(out)["status"] == "failed"


def test_killing_the_parent_ends_the_run(mpi, tmp_path):
    out = tmp_path / "run"
    words = ["run", "-n", "3", "--iterations", "10000000", "--out", out, "--quiet"]
    process = start(mpi.mpi_gt(*words, "--log-every", "50"))
    rows = out / "metrics.csv"
    wait_for(lambda: rows.exists() and len(rows.read_text().splitlines()) > 2)
    assert len(ranks_of(out)) == 3
    process.kill()
    wait_for(lambda: not ranks_of(out), limit=15)
    finish(process)
    clean_up(out)  # nobody resumes it


def test_what_a_killed_mpirun_left_is_in_nobody_s_way(openmpi, call, tmp_path):
    """A new mpirun may get the same process number: in a new namespace they begin at 1."""
    spaces = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*spaces, "true"], capture_output=True, check=False).returncode:
        skip_without_root("it makes a namespace of process numbers")
    left = {tmp_path / f"ompi.{pid}" for pid in range(1, 100)}
    for folder in left:
        folder.mkdir()
        for name in ("", folder.suffix):
            (folder / f"pmix.{socket.gethostname()}.tool{name}").touch()
    words = ["run", "-n", "2", "--iterations", "3", "--quiet", "--out", tmp_path / "run"]
    call([*spaces, *openmpi.mpi_gt(*words)], env={"TMPDIR": str(tmp_path)})
    assert set(tmp_path.glob("ompi.*")) == left  # they may belong to somebody else


def test_what_is_ignored_stays_ignored(openmpi, tmp_path):
    """nohup makes the run ignore the hang-up signal."""
    out = tmp_path / "run"
    words = ["run", "-n", "2", "--iterations", "1000", "--out", out, "--quiet"]
    process = start(["nohup", *openmpi.mpi_gt(*words)])
    wait_for(lambda: (out / "run.json").exists())
    process.send_signal(signal.SIGHUP)
    assert finish(process).code == 0
