"""Which MPIs there are to test with, and running a command to its end."""

import os
import shutil
from pathlib import Path

import pytest
from support import MPIS, Finished, Mpi, find_mpi, finish, skip_or_fail, start

from mpi_gt import kernels
from mpi_gt.datasets import DATASETS, prepare
from mpi_gt.datasets.store import cache_folder


def pytest_generate_tests(metafunc):
    if "mpi" in metafunc.fixturenames:
        metafunc.parametrize("mpi", MPIS, indirect=True, scope="session")


@pytest.fixture(scope="session")
def mpi(request) -> Mpi:
    return find_or_skip(request.param)


@pytest.fixture(autouse=True)
def _without_figures(request, monkeypatch):
    """They take longer than all else: for those who look at them only, who say so by a mark."""
    if request.node.get_closest_marker("figures") is None:
        monkeypatch.setattr("mpi_gt.plots.available", lambda: False)


@pytest.fixture
def kernels_built():
    if kernels.C is None:
        skip_or_fail("the kernels were not built: is there a C compiler?")


@pytest.fixture
def by_numpy(monkeypatch):
    """What a function gives without the kernels."""

    def call(function):
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "C", None)
            return function()

    return call


def find_or_skip(name: str) -> Mpi:
    found = find_mpi(name)
    if found is None:
        skip_or_fail(f"no {name} beside this Python: scripts/test sets up both MPIs")
        raise AssertionError("unreachable")
    return found


@pytest.fixture(scope="session")
def openmpi() -> Mpi:
    return find_or_skip("openmpi")


@pytest.fixture(scope="session")
def mpich() -> Mpi:
    return find_or_skip("mpich")


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


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The raw datasets: beside the checkout, or where $MPI_GT_DATA says."""
    beside = Path(__file__).parent.parent.parent / "shared" / "data"
    for folder in (beside, Path(os.environ.get("MPI_GT_DATA", "absent"))):
        if (folder / "mnist").is_dir():
            return folder
    skip_or_fail("the datasets are not here: set MPI_GT_DATA to a folder with a9a/, mnist/, ...")
    raise AssertionError("unreachable")


@pytest.fixture(scope="session")
def prepared_data(data_dir, tmp_path_factory) -> Path:
    """All datasets, prepared in a cache of the tests' own, which is in force from here on."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    for dataset in DATASETS.values():
        prepare(dataset, str(data_dir))
    return cache_folder() / "prepared"
