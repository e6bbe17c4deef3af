"""The command `mpirun -n N python tests/ranks [FOLDER FOR TEMPORARY FILES] [pytest's options]`."""

import os
import sys
from pathlib import Path

import mpi4py
import pytest

mpi4py.rc.thread_level = "funneled"
from mpi4py import MPI  # noqa: E402

os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # every rank would import all of them
rank = MPI.COMM_WORLD.rank
if rank > 0:  # one report is enough; conftest.py prints failures
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
code = pytest.main(
    [
        str(Path(__file__).parent),
        "-p",
        "pytest_mpi",
        "--with-mpi",
        "-q",
        "--color=no",
        "-o",
        f"faulthandler_timeout={60 if rank == 0 else 0}",
        "-p",
        "no:cacheprovider",
        *sys.argv[2:],
        *([f"--basetemp={sys.argv[1]}/{rank}"] if len(sys.argv) > 1 else []),
    ]
)
if code:
    MPI.COMM_WORLD.Abort(int(code))
