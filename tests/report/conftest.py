"""Runs for the page to show."""

from pathlib import Path

import pytest
from browser import Browser


@pytest.fixture(scope="session")
def made(tmp_path_factory, openmpi, call) -> Path:
    """A real comparison, profiled run and bench."""
    folder = tmp_path_factory.mktemp("made")
    words = ["-n", "4", "--iterations", "30", "--quiet"]
    compare = ["--algorithms", "gt-adaptive,dsgd", "--seeds", "3", "--out", "compare"]
    call(openmpi.mpi_gt("compare", *words, *compare), cwd=folder)
    slow = ["--straggler", "node=2,ms=5", "--out", "profile"]
    call(openmpi.mpi_gt("profile", *words, *slow), cwd=folder)
    sizes = ["--sizes", "160,16kB,160kB", "--seconds", "0.02", "--exchanges", "neighbor,p2p"]
    call(openmpi.mpi_gt("bench", "-n", "4", *sizes, "--out", "bench", "--quiet"), cwd=folder)
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()
