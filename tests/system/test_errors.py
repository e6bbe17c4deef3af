"""Errors on real ranks: one message, one exit code, whoever finds them."""

import time

import numpy as np
import pytest
from support import facts, find_mpi

BAD = {
    "name": (["--algorithm", "gt-adaptve"], "did you mean 'gt-adaptive'"),
    "domain": (["--algorithm", "gt-adaptive:beta2=1"], "beta2"),
    "graph": (["--graph", "er:p=0"], "p must be"),
    "edges": (["--graph", "edges.txt"], "3 nodes, but there are 4"),
    "apart": (["--graph", "apart.txt"], "not connected"),
    "malformed": (["--graph", "malformed.txt"], "line 2"),
    "data": (["--problem", "huber:data=data.npz"], "not finite"),
    "taken": (["--out", "taken"], "exists"),
    "unwritable": (["--out", "edges.txt/run"], "edges.txt"),
    "option": (["--iteratons", "5"], "did you mean '--iterations'"),
}


@pytest.mark.parametrize(
    ("way", "case"),
    [
        *(("child", case) for case in BAD),
        *(("mpirun", case) for case in ("domain", "malformed", "data", "taken", "option")),
    ],
)
def test_bad_input_is_one_message_and_exit_code_two(openmpi, way, case, call, tmp_path):
    """Under a bare mpirun the ranks find all errors: one of each place where they are found."""
    require_one_message(openmpi, way, case, call, tmp_path)


@pytest.mark.parametrize("way", ["mpirun", "child"])
def test_bad_input_with_mpich(mpich, way, call, tmp_path):
    require_one_message(mpich, way, "data", call, tmp_path)


def require_one_message(mpi, way, case, call, tmp_path):
    words, message = BAD[case]
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n")
    (tmp_path / "apart.txt").write_text("0 1\n2 3\n")
    (tmp_path / "malformed.txt").write_text("0 1\n1 two\n")
    (tmp_path / "taken").mkdir()
    np.savez(tmp_path / "data.npz", Phi=np.full((4, 2, 2), np.nan), x_star=np.zeros(2))
    launcher = mpi.mpirun(4, str(mpi.bin / "mpi-gt"), "run")
    if way == "child":
        launcher = mpi.mpi_gt("run", "-n", "4")
    done = call([*launcher, "--iterations", "5", *words], cwd=tmp_path, expect=2, limit=60)
    assert done.err.count("mpi-gt: error:") == 1, str(done)
    assert message in done.err, str(done)
    assert "Traceback" not in done.err
    assert not (tmp_path / "runs").exists()


def test_another_number_of_ranks_than_asked_for(mpi, call, tmp_path):
    words = mpi.mpirun(2, str(mpi.bin / "mpi-gt"), "run", "-n", "16")
    done = call(words, cwd=tmp_path, expect=2, limit=60)
    assert done.err.count("-n 16 was asked for, but there are 2 MPI ranks") == 1


@pytest.mark.parametrize("way", ["mpirun", "child", "doctor"])
def test_no_mpi_library(openmpi, way, call, tmp_path):
    """mpi4py raises an error where it is imported: on every rank."""
    words = {
        "mpirun": openmpi.mpirun(2, str(openmpi.bin / "mpi-gt"), "run"),
        "child": openmpi.mpi_gt("run", "-n", "2"),
        "doctor": openmpi.mpi_gt("doctor"),
    }[way]
    missing = {"MPI4PY_LIBMPI": "/nowhere/libmpi.so"}
    done = call(words, cwd=tmp_path, expect=2, limit=60, env=missing)
    said = done.out if way == "doctor" else done.err
    assert said.count("mpi4py cannot load an MPI library") == 1, str(done)
    assert "/nowhere/libmpi.so" in said
    assert "Traceback" not in done.err
    assert not (tmp_path / "runs").exists()


def test_one_brand_s_mpirun_with_another_s_mpi4py(mpi, call, tmp_path):
    """Every rank would be a world of its own, or abort: this is detected before the run."""
    other = find_mpi("mpich" if mpi.name == "openmpi" else "openmpi")
    assert other is not None
    for command in ("run", "doctor"):
        words = mpi.mpirun(3, str(other.bin / "mpi-gt"), command)
        done = call(words, cwd=tmp_path, expect=2, limit=60)
        text = done.out if command == "doctor" else done.err
        assert text.count("started 3 processes, but every process is a world of its own") == 1
        assert "another MPI" in text
    assert not (tmp_path / "runs").exists()


def test_divergence(mpi, call, tmp_path):
    out = tmp_path / "run"
    words = ["run", "--algorithm", "gt-adaptive:lr=1e308", "--out", out, "--quiet"]
    done = call(mpi.mpi_gt(*words, "-n", "4"), expect=3)
    assert done.err.count("node") == 1
    assert "after iteration 10" in done.err
    assert facts(out)["status"] == "failed"
    assert len((out / "metrics.csv").read_text().splitlines()) == 2
    call(mpi.mpirun(4, str(mpi.bin / "mpi-gt"), *words, "--overwrite"), expect=3)


FAILING = """
import sys
import mpi_gt.algorithms.gt_adaptive as module
from mpi4py import MPI
step = module.GTAdaptive.step

def failing(self, t, *rest):
    if t == 30 and MPI.COMM_WORLD.rank == 2:
        raise ZeroDivisionError("a bug in the algorithm")
    return step(self, t, *rest)

module.GTAdaptive.step = failing
from mpi_gt.cli.main import main
sys.exit(main())
"""


def test_an_exception_on_one_rank_ends_all_and_names_it(mpi, call, tmp_path):
    out = tmp_path / "run"
    words = mpi.mpirun(4, mpi.python, "-c", FAILING, "run", "--out", out, "--quiet")
    begin = time.monotonic()
    done = call(words, expect=None, limit=30)
    assert time.monotonic() - begin < 15
    assert done.code != 0
    assert done.err.count("mpi-gt: error on rank 2:") == 1, str(done)
    assert done.err.count("ZeroDivisionError: a bug in the algorithm") == 1
    assert facts(out)["status"] == "failed"
    assert "rank 2" in facts(out)["error"]


def test_users_own_classes_that_import_mpi(mpi, call, tmp_path):
    """The front end imports the class too, and must not become an MPI process by that."""
    (tmp_path / "mine.py").write_text(
        "from mpi4py import MPI\nfrom mpi_gt.algorithms.dsgd import DSGD\n"
        "class Mine(DSGD):\n    pass\n"
    )
    words = ["run", "-n", "3", "--algorithm", "mine:Mine", "--iterations", "5", "--out", "run"]
    call(mpi.mpi_gt(*words, "--quiet"), cwd=tmp_path)
    (tmp_path / "mine.py").write_text("class Mine:\n    def init(self): ...\n")
    for launcher in (mpi.mpi_gt(), mpi.mpirun(3, str(mpi.bin / "mpi-gt"))):
        done = call([*launcher, *words, "--overwrite"], cwd=tmp_path, expect=2)
        assert done.err.count("lacks step()") == 1
