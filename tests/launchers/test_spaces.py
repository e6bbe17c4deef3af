"""Open MPI in a folder with spaces, on several hosts. The real thing is in tests/cluster."""

import subprocess

import pytest

from mpi_gt.errors import UserError
from mpi_gt.launchers.brands import BRANDS
from mpi_gt.launchers.spaces import AGENTS, quoting_agent


def test_the_path_reaches_the_other_host_in_one_piece(tmp_path):
    mpirun = tmp_path / "my own mpi" / "bin" / "mpirun"
    env = {AGENTS[0]: "sh -c 'eval \"$2\"'"}  # in the place of ssh: host, then the command
    with quoting_agent(mpirun, BRANDS["openmpi"], env) as settings:
        agent = settings[AGENTS[0]]
        command = f"X={mpirun.parent.parent};Y={mpirun.parent.parent}/lib:$Z;echo $X $Y"
        done = subprocess.run([agent, "h2", "h2", command], capture_output=True, text=True)
    assert done.stdout == f"{tmp_path}/my own mpi {tmp_path}/my own mpi/lib:\n", done.stderr


def test_without_spaces_nothing_is_set(tmp_path):
    for folder, brand in (("mpi", "openmpi"), ("my own mpi", "mpich"), ("my own mpi", None)):
        chosen = None if brand is None else BRANDS[brand]
        with quoting_agent(tmp_path / folder / "bin" / "mpirun", chosen, {}) as settings:
            assert settings == {}


def test_a_temporary_folder_with_spaces(tmp_path, monkeypatch):
    (tmp_path / "my files").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "my files"))
    mpirun = tmp_path / "my own mpi" / "bin" / "mpirun"
    with (
        pytest.raises(UserError, match="set TMPDIR to one without"),
        quoting_agent(mpirun, BRANDS["openmpi"], {}),
    ):
        pass
