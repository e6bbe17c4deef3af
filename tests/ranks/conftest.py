"""Fixtures of the tests under mpirun, which all ranks run alike. A failing rank ends all."""

import sys

import numpy as np
import pytest
from mpi4py import MPI


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """End all ranks after a failure: the others would wait for this one for ever."""
    if report.failed:
        rank = MPI.COMM_WORLD.rank
        print(f"rank {rank} failed {report.nodeid}\n{report.longreprtext}", file=sys.stderr)
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)


def communicators():
    """Return the world and its reverse, in which a rank differs from that of the launcher."""
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
    """A generator with the same numbers on every rank."""
    return np.random.default_rng(comm.size)
