"""The watchdog on real ranks: it names the silent neighbour, and does not bark at slow work."""

import json
import os
import signal
from pathlib import Path

import pytest
from support import facts, finish, ranks_of, start, wait_for

from mpi_gt.rundir.checkpoint import glance, part_path
from mpi_gt.rundir.run_json import ranks_are_up

SIZE = ["-n", "4", "--seeds", "2", "--quiet", "--graph", "ring"]


def test_the_watchdog_names_the_silent_neighbour(mpi, tmp_path):
    require_bark(mpi, "neighbor", tmp_path)


@pytest.mark.parametrize("exchange", ["persistent-p2p", "shared"])
def test_the_watchdog_of_another_exchange(openmpi, exchange, tmp_path):
    require_bark(openmpi, exchange, tmp_path)


def require_bark(mpi, exchange, tmp_path):
    out = tmp_path / "run"
    words = ["--watchdog", "3", "--exchange", exchange, "--checkpoint-every", "200"]
    words += ["--log-every", "1000000"]  # else ranks may wait in a measurement
    process = start(mpi.mpi_gt("run", *SIZE, "--iterations", "100000000", *words, "--out", out))
    wait_for(lambda: (out / "checkpoints" / "b").exists() and glance(part_path(out, 0, 0)))
    silent = rank_number(ranks_of(out), 2)
    os.kill(silent, signal.SIGSTOP)
    done = finish(process, limit=30)
    assert done.code == 86, str(done)
    assert facts(out)["status"] == "failed"
    assert facts(out)["exit_code"] == 86
    assert facts(out)["error"].endswith(f"silent: node 2 on {os.uname().nodename}")
    assert "watchdog: node" in done.err
    (report, *_) = (out / "watchdog").glob("*.json")
    assert json.loads(report.read_text())["seconds"] >= 3
    wait_for(lambda: not ranks_of(out), limit=15)


@pytest.mark.parametrize("limit", [300, 0])
def test_ranks_that_sleep_in_shared_memory_end_with_their_launcher(openmpi, limit, tmp_path):
    """MPI ends them only in its own calls; neighbours of an ended rank would sleep for ever."""
    out = tmp_path / "run"
    words = ["--watchdog", limit, "--exchange", "shared", "--log-every", "1000000"]
    process = start(openmpi.mpi_gt("run", *SIZE, "--iterations", "100000000", *words, "--out", out))
    wait_for(lambda: len(ranks_of(out)) == 4 and ranks_are_up(out))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not ranks_of(out), limit=15)


def rank_number(pids, number):
    """Return the process of that rank, by the environment that its launcher gave it."""
    names = (b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")
    for pid in pids:
        for setting in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if setting.startswith(names) and int(setting.split(b"=")[1]) == number:
                return pid
    raise AssertionError(f"no rank {number}")


SLOW = """
import sys, time
import mpi_gt.problems.huber as module
from mpi4py import MPI
evaluate = module.Huber.evaluate

def slow(self, x):
    time.sleep(1 + 3 * (MPI.COMM_WORLD.rank == 1))
    return evaluate(self, x)

module.Huber.evaluate = slow
from mpi_gt.cli.main import main
sys.exit(main())
"""


def test_slow_measuring_is_no_reason_to_bark(openmpi, call, tmp_path):
    """The others wait for rank 1 longer than an exchange may take."""
    words = ["run", "--quiet", "--iterations", "20", "--log-every", "20", "--watchdog", "2"]
    call(openmpi.mpirun(3, openmpi.python, "-c", SLOW, *words, "--out", tmp_path / "run"))


STOPPED = """
import os, signal, sys
import mpi_gt.comm.node
import {module} as module
from mpi4py import MPI
mpi_gt.comm.node.GATHERED = 0  # also short vectors travel along the tree
inner = module.{name}

def stopped(*arguments, **named):
    if MPI.COMM_WORLD.rank == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    return inner(*arguments, **named)

module.{name} = stopped
from mpi_gt.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("mpi_gt.engine.build", "_make_problem"),  # at the start
        ("mpi_gt.comm.means", "Tree.add_up"),  # in a measurement
        ("mpi_gt.comm.node", "Node.stream_to_root"),  # while outputs are collected
        ("mpi_gt.comm.node", "Node.free"),  # at the end, while root has written its files
    ],
)
def test_the_watchdog_guards_every_part_of_a_run(openmpi, module, name, tmp_path):
    out = tmp_path / "run"
    code = STOPPED.format(module=module, name=name)
    words = ["run", "--quiet", "--iterations", "5", "--graph", "ring", "--watchdog", "2"]
    process = start(openmpi.mpirun(4, openmpi.python, "-c", code, *words, "--out", out))
    done = finish(process, limit=60)
    assert done.code == 86, str(done)
    assert done.err.count("watchdog: node") == 1
    assert "silent: node 2" in done.err


def run_with_fake_mpirun(openmpi, folder, action, *words, patch=""):
    """Run a front end whose mpirun is a shell script that does this."""
    fake = folder / "bin"
    fake.mkdir()
    (fake / "mpirun").write_text(f"#!/bin/sh\n[ $1 = --version ] && echo HYDRA && exit\n{action}\n")
    (fake / "mpirun").chmod(0o755)
    (fake / "python").symlink_to(openmpi.python)
    code = (
        "import mpi_gt.launchers.programs as m, sys; from pathlib import Path;"
        f"m.find_mpirun = lambda: Path({str(fake / 'mpirun')!r}); {patch}\n"
        "from mpi_gt.cli.main import main; sys.exit(main())"
    )
    run = ["run", "-n", "2", "--iterations", "5", "--quiet", "--out", folder / "run", *words]
    done = finish(start([openmpi.python, "-c", code, *run]), limit=40)
    assert done.code == 86, str(done)
    assert "to continue" not in done.err
    assert facts(folder / "run")["status"] == "failed"
    return done


def test_an_mpirun_that_never_starts_its_ranks_is_ended(openmpi, tmp_path):
    """The front end has a limit of its own for that."""
    done = run_with_fake_mpirun(openmpi, tmp_path, "exec sleep 100", "--watchdog", "1")
    assert "the ranks are not up after" in done.err


def test_an_mpirun_that_does_not_notice_the_end_of_a_rank_is_ended(openmpi, tmp_path):
    """One of some hundred killed during the start of 16 ranks on 2 busy cores."""
    (tmp_path / "start_rank.py").write_text("sleep $1\n")
    ranks = " & ".join(f"sh {tmp_path}/start_rank.py {seconds}" for seconds in (2, 50))
    patch = "import mpi_gt.launchers.process as p; p.UNNOTICED = 1"
    done = run_with_fake_mpirun(openmpi, tmp_path, f"{ranks} & exec sleep 100", patch=patch)
    assert "a rank ended too soon, and mpirun did not notice it" in done.err


BUSY = """
import sys, time
import mpi_gt.comm.node
import {module} as module
from mpi4py import MPI
mpi_gt.comm.node.GATHERED = 0  # also short vectors travel along the tree
inner = module.{name}

def slow(*arguments, **named):
    time.sleep(4.5 * (MPI.COMM_WORLD.rank == 0))
    return inner(*arguments, **named)

module.{name} = slow
from mpi_gt.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("mpi_gt.engine.build", "read_starts"),
        ("mpi_gt.rundir.run_directory", "RunDirectory.write_final"),
    ],
)
def test_a_root_that_works_for_long_is_waited_for(openmpi, call, module, name, tmp_path):
    """Root prepares data or writes files for longer than the limit, and shows that it is alive."""
    code = BUSY.format(module=module, name=name)
    words = ["run", "--quiet", "--iterations", "5", "--watchdog", "2", "--out", tmp_path / "run"]
    call(openmpi.mpirun(3, openmpi.python, "-c", code, *words))
    assert not (tmp_path / "run" / "watchdog").exists()
