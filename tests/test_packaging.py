"""The wheel of `scripts/wheels` is complete: its files, its data, its metadata."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import ROOT_OF_REPOSITORY

import mpi_gt

WHEELS = str(ROOT_OF_REPOSITORY / "scripts" / "wheels")
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory, compiler):
    target = tmp_path_factory.mktemp("wheel")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [WHEELS, "--out", str(target), HERE],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stderr
    (found,) = target.glob("*.whl")
    assert str(found) in done.stdout
    return found


def test_the_wheel_has_the_kernels_of_its_python(wheel):
    tag = f"cp{HERE.replace('.', '')}"
    assert f"-{tag}-{tag}-" in wheel.name
    compiled = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
    assert [name.startswith("mpi_gt/kernels/_c.") for name in compiled] == [True]


@pytest.mark.parametrize("words", [["3.9"], ["--oout", "x"], ["3.11x"]])
def test_wheels_refuses(words):
    done = subprocess.run([WHEELS, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("mpi-gt: ")


def test_wheels_says_which_interpreters_are_missing(tmp_path):
    """With a PATH that has no Python, and no other place to look in."""
    for name in ("bash", "sh", "dirname", "mktemp", "mkdir", "tar", "rm", "sed", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name))
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    for words, told in ((["3.10"], "no wheel for Python 3.10"), ([], "3.10 3.11 3.12 3.13")):
        done = subprocess.run(
            [WHEELS, "--out", str(tmp_path / "dist"), *words],
            capture_output=True,
            text=True,
            check=False,
            env=env,
        )
        assert done.returncode == 1
        assert told in done.stderr


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
