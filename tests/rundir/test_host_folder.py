"""The folder of a host: its ranks share it, and the last one removes it."""

import os
import socket

import pytest

from mpi_gt.rundir import host_folder, private, remains
from mpi_gt.rundir.host_folder import BACKING, LAUNCH, enter_host, record_launch
from mpi_gt.rundir.layout import LAUNCHES


@pytest.fixture
def memory(tmp_path, monkeypatch):
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(remains, "MEMORY", folder)
    monkeypatch.setattr(host_folder, "MEMORY", folder)
    for name in (LAUNCH, *BACKING, "OMPI_MCA_shmem", "PMIX_SERVER_TMPDIR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return folder


def test_the_last_rank_of_an_own_mpirun_removes_folder_and_record(memory, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    first, second = enter_host(), enter_host()
    (folder,) = memory.iterdir()
    record_launch(run)
    (record,) = run.glob(f"{LAUNCHES}*")
    first.leave()
    assert folder.exists()
    assert record.exists()
    second.leave()
    assert not list(memory.iterdir())
    assert not list(run.iterdir())


def test_the_folder_that_a_front_end_has_made_is_left_to_it(memory, monkeypatch, tmp_path):
    folder = private.private_folder(memory, "abc1")
    os.close(private.use(folder, make=True))
    monkeypatch.setenv(LAUNCH, f"abc1 {socket.gethostname()}")
    rank = enter_host()
    record_launch(tmp_path)
    assert not list(tmp_path.glob(f"{LAUNCHES}*"))
    rank.leave()
    assert folder.exists()


def test_a_rank_whose_launch_was_cleaned_up_does_not_start(memory, monkeypatch):
    monkeypatch.setenv(LAUNCH, f"abc1 {socket.gethostname()}")
    with pytest.raises(SystemExit):
        enter_host()
    assert not list(memory.iterdir())


def test_a_rank_on_another_host_makes_and_removes_its_folder(memory, monkeypatch):
    monkeypatch.setenv(LAUNCH, "abc1 elsewhere")
    rank = enter_host()
    assert [path.name for path in memory.iterdir()] == [".mpi-gt-abc1"]
    rank.leave()
    assert not list(memory.iterdir())


def test_mpi_init_sees_the_folder_and_what_the_user_has_set_stays(memory, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv(BACKING[0], "/chosen")
    rank = enter_host()
    (folder,) = memory.iterdir()
    with rank.around_init("Open MPI"):
        assert os.environ["TMPDIR"] == os.environ[BACKING[1]] == str(folder)
    assert os.environ["TMPDIR"] == str(tmp_path)
    assert os.environ[BACKING[0]] == "/chosen"
    assert (folder / remains.NOTES).exists()
    rank.leave()


def test_without_shared_memory_there_is_no_folder(memory):
    memory.rmdir()
    rank = enter_host()
    with rank.around_init("Open MPI"):
        assert BACKING[0] not in os.environ
    rank.leave()


def test_the_begin_of_mpich_is_marked(memory):
    rank = enter_host()
    (folder,) = memory.iterdir()
    with rank.around_init("MPICH Version: 5"):
        assert (folder / remains.INIT).exists()
        assert not (folder / remains.NOTES).exists()
    rank.leave()
