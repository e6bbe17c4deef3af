"""These tests run under mpirun, all ranks the same ones. One failing rank ends all."""

import sys

import numpy as np
import pytest
from mpi4py import MPI


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """The other ranks would wait for this one for ever."""
    if report.failed:
        rank = MPI.COMM_WORLD.rank
        print(f"rank {rank} failed {report.nodeid}\n{report.longreprtext}", file=sys.stderr)
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)


def communicators():
    """The world, and the world backwards: a rank's number is not its place in the launch."""
    world = MPI.COMM_WORLD
    return {
        "world": lambda: world.Dup(),
        "backwards": lambda: world.Split(0, key=world.size - world.rank),
    }


@pytest.fixture(params=communicators())
def comm(request):
    made = communicators()[request.param]()
    yield made
    made.Free()


@pytest.fixture
def random(comm):
    """The same numbers on every rank."""
    return np.random.default_rng(comm.size)
