"""The private folders of a launch: there before mpirun starts, and gone after its end."""

import os
import socket

import pytest

from mpi_gt.errors import UserError
from mpi_gt.launchers import folders
from mpi_gt.launchers.brands import BRANDS, UNKNOWN
from mpi_gt.launchers.folders import LaunchFolders
from mpi_gt.rundir import private, remains
from mpi_gt.rundir.host_folder import LAUNCH
from mpi_gt.rundir.layout import LAUNCHES


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return a folder for shared memory, one for temporary files and one for a run."""
    made = [tmp_path / name for name in ("shm", "tmp", "run")]
    for folder in made:
        folder.mkdir()
    monkeypatch.setattr(remains, "MEMORY", made[0])
    monkeypatch.setattr(folders, "MEMORY", made[0])
    monkeypatch.setattr(folders, "PATIENCE", 0)
    monkeypatch.setattr("tempfile.tempdir", str(made[1]))
    return made


def content(places):
    return [path.name for place in places for path in place.iterdir()]


def test_they_are_recorded_before_they_are_made_and_removed_at_the_end(places):
    with LaunchFolders(places[2], None) as launch:
        assert launch.variables() == {LAUNCH: f"{launch.name} {socket.gethostname()}"}
        own = f".mpi-gt-{launch.name}"
        assert content(places) == [own, own, f"{LAUNCHES}{launch.name}"]
        assert launch.outcome == launch.temporary == places[1] / own
    assert content(places) == []


def test_folders_that_ranks_still_use_stay_and_the_next_launch_removes_them(places):
    with LaunchFolders(places[2], None) as launch:
        launch.variables()
        rank = private.use(private.private_folder(places[0], launch.name), make=False)
    assert content(places) == [f".mpi-gt-{launch.name}", f"{LAUNCHES}{launch.name}"]
    os.close(rank)
    with LaunchFolders(places[2], None) as launch:
        assert content(places) == [f".mpi-gt-{launch.name}", f"{LAUNCHES}{launch.name}"]
    assert content(places) == []


def test_without_a_run_directory_they_are_removed_as_well(places):
    with LaunchFolders(None, None) as launch:
        launch.variables()
    assert content(places) == []


def test_the_exit_code_of_other_hosts_has_a_folder_beside_the_run(places, tmp_path):
    with LaunchFolders(places[2], tmp_path) as launch:
        assert launch.outcome == tmp_path / f".mpi-gt-{launch.name}"
        assert launch.outcome.is_dir()
        assert launch.variables() == {LAUNCH: f"{launch.name} *"}
    assert not launch.outcome.exists()
    assert len(content(places)) == 1  # the record: other hosts may not have ended


def test_a_place_that_cannot_be_written_to_is_one_message(places, tmp_path):
    with (
        pytest.raises(UserError, match="nowhere"),
        LaunchFolders(places[2], tmp_path / "nowhere"),
    ):
        raise AssertionError
    assert content(places) == [path.name for path in places[2].iterdir()]


def test_without_shared_memory_ranks_get_no_folder(places):
    places[0].rmdir()
    with LaunchFolders(places[2], None) as launch:
        assert launch.variables() == {LAUNCH: ""}
    assert content(places[1:]) == []


def test_open_mpi_keeps_its_session_there_unless_the_user_has_chosen_a_folder(tmp_path):
    openmpi = BRANDS["openmpi"]
    assert openmpi.session(tmp_path, {})["PRTE_MCA_prte_local_tmpdir_base"] == str(tmp_path)
    for name in ("PRTE_MCA_prte_tmpdir_base", "OMPI_MCA_orte_local_tmpdir_base"):
        assert openmpi.session(tmp_path, {name: "/chosen"}) == {}
    assert BRANDS["mpich"].session(tmp_path, {}) == UNKNOWN.session(tmp_path, {}) == {}
