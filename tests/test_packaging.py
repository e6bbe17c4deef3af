"""The wheel is complete: its files, its data, its metadata."""

import subprocess
import sys
import zipfile

import pytest
from support import ROOT_OF_REPOSITORY

import mpi_gt


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"]
    # from a copy: setuptools leaves its build folder where it builds
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE", "mpi_gt"):
        subprocess.run(["cp", "-r", ROOT_OF_REPOSITORY / name, source], check=True)
    done = subprocess.run(
        [*pip, "-w", str(target), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (path,) = target.glob("*.whl")
    return path


def test_the_wheel_holds_every_file_of_the_package(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT_OF_REPOSITORY / "mpi_gt"
    for file in package.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert f"mpi_gt/{file.relative_to(package)}" in inside
    for name in (
        "mpi_gt/py.typed",
        "mpi_gt/experiments/huber.toml",
        "mpi_gt/report/page.html",
        "mpi_gt/manual/running.md",
    ):
        assert name in inside
    assert not any(name.startswith(("tests", "scripts")) for name in inside)


def test_the_wheel_says_its_licence(wheel):
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
    text = archive.read(metadata).decode()
    assert f"Version: {mpi_gt.__version__}\n" in text
    assert "License-Expression: MIT\n" in text
    assert "Requires-Python: >=3.10\n" in text
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


def test_the_wheel_runs_from_elsewhere(wheel, tmp_path):
    """With the files of the wheel only, data files are found and no MPI is started."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import mpi_gt\n"
        "assert 'mpi4py.MPI' not in sys.modules\n"
        "assert mpi_gt.__file__.startswith(sys.argv[1])\n"
        "from mpi_gt.reproduce.study import EXPERIMENTS, make_study\n"
        "[make_study(name, 'literal', True, {}, None) for name in EXPERIMENTS]\n"
        "from mpi_gt.report.page import make_page\n"
        "assert '<main>' in make_page([], '')\n"
        "from mpi_gt.cli.main import main\n"
        "main(['--version'])\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "site")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"mpi-gt {mpi_gt.__version__}\n"


def test_nothing_of_the_data_is_in_the_repository():
    for suffix in ("*.bz2", "*.data", "*ubyte*", "*.npy"):
        found = [path for path in ROOT_OF_REPOSITORY.rglob(suffix) if ".venv" not in str(path)]
        assert not [path for path in found if "site-packages" not in str(path)]
