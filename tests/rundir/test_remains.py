"""What a killed run leaves behind is removed, and nothing else is."""

import contextlib
import json
import mmap
import os
import signal
import time
from pathlib import Path

import pytest
from support import finish, ranks_of, start, temporary_files, wait_for

from mpi_gt.files import read_own_table
from mpi_gt.rundir import private, remains
from mpi_gt.rundir.host_folder import clean_up
from mpi_gt.rundir.layout import LAUNCHES

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def memory(tmp_path, monkeypatch):
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(remains, "MEMORY", folder)
    return folder


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def make_launch(memory, run, name, **notes):
    """Make the folders of a launch that was killed; return them and the record."""
    temporary = private.private_folder(memory.parent, name)
    folder = private.private_folder(memory, name)
    for each in (temporary, folder):
        os.close(private.use(each, make=True))
    full = {"space": remains._space(), "segments": [], "folders": [], **notes}
    (folder / remains.NOTES).write_text(json.dumps(full))
    return folder, temporary, remains.write_record(run, name, [temporary], alone=True)


def test_earlier_launches_are_removed_and_this_one_is_not(memory, run):
    first, second, third = (make_launch(memory, run, name) for name in ("a1", "b2", "c3"))
    remains.remove_remains(run, "c3")
    assert not any(path.exists() for path in (*first, *second))
    assert all(path.exists() for path in third)


def test_what_a_process_uses_stays_and_so_does_its_record(memory, run):
    folder, temporary, record = make_launch(memory, run, "a1")
    file = private.use(folder, make=False)
    remains.remove_remains(run, None)
    assert folder.exists()
    assert record.exists()
    assert not temporary.exists()
    os.close(file)
    remains.remove_remains(run, None)
    assert not folder.exists()
    assert not record.exists()


def test_only_the_noted_segments_are_removed(memory, run):
    own = ["mpich_shm_38cf6a60_0", "mpich_shm_38cf6a60_17", "mpich_vci_38cf6a60_0"]
    other = ["mpich_shm_38cf6a61_0", "mpich_shm_38cf6a60_x", "mpich_shar_tmpabcdef", "a"]
    for name in (*own, *other):
        (memory / name).touch()
    noted = ["mpich_shm_38cf6a60_", "mpich_vci_38cf6a60_", "", "../", "a", 5, None]
    make_launch(memory, run, "a1", segments=noted)
    remains.remove_remains(run, None)
    assert sorted(path.name for path in memory.iterdir()) == sorted(other)


@pytest.mark.parametrize("sees_all", [True, False])
def test_segments_of_ranks_killed_in_mpi_init_are_removed(sees_all, memory, run, monkeypatch):
    monkeypatch.setattr(remains, "_sees_all", lambda: sees_all)
    earlier, own, used = (memory / f"mpich_shm_{each}_0" for each in "abc")
    earlier.touch()
    os.utime(earlier)
    time.sleep(0.02)
    folder, _, _ = make_launch(memory, run, "a1")
    (folder / remains.INIT).touch()
    own.touch()
    with used.open("w+b") as file:
        remains.remove_remains(run, None)
        assert own.exists()  # they are noted, so there are no others
        make_launch(memory, run, "a1")
        (folder / remains.NOTES).unlink()
        (folder / remains.INIT).touch()
        os.utime(folder / remains.INIT, (0, own.stat().st_ctime))
        file.truncate(4096)
        with mmap.mmap(file.fileno(), 4096):
            remains.remove_remains(run, None)
    assert not folder.exists()
    assert [each.exists() for each in (earlier, own, used)] == [True, not sees_all, True]


def test_a_window_of_ranks_killed_while_they_made_it_is_removed(memory, run, monkeypatch):
    monkeypatch.setattr(remains, "_sees_all", lambda: True)
    earlier, own, used = (memory / f"mpich_shar_tmp{each}" for each in ("aB3xyz", "b", "c"))
    earlier.touch()
    time.sleep(0.02)
    folder, _, _ = make_launch(memory, run, "a1")  # with notes: MPI_Init was over
    (folder / remains.INIT).touch()
    time.sleep(0.02)
    own.touch()
    with used.open("w+b"):
        remains.remove_remains(run, None)
    assert [each.exists() for each in (earlier, own, used)] == [True, False, True]


def test_folders_of_live_processes_and_of_others_stay(memory, run, tmp_path):
    names = (f"ompi.{os.getpid()}", "ompi.4194300", "precious")
    for name in names:
        (tmp_path / name).mkdir()
    noted = [str(tmp_path / name) for name in names]
    make_launch(memory, run, "a1", folders=noted, space="another")
    remains.remove_remains(run, None)
    assert [(tmp_path / name).exists() for name in names] == [True, True, True]
    make_launch(memory, run, "a1", folders=noted)
    remains.remove_remains(run, None)
    assert [(tmp_path / name).exists() for name in names] == [True, False, True]


def test_a_record_cannot_name_other_folders(memory, run, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / ".mpi-gt-link").symlink_to(precious)
    folders = [precious, tmp_path / ".mpi-gt-link", tmp_path]
    remains.write_record(run, "a1", folders, alone=True)
    remains.remove_remains(run, None)
    assert precious.exists()
    assert (tmp_path / ".mpi-gt-link").is_symlink()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"host": 1, "folders": 5}', "null", "[" * 9999])
def test_a_damaged_record_or_note_does_no_harm(text, memory, run):
    folder, temporary, record = make_launch(memory, run, "a1")
    record.write_text(text)
    (folder / remains.NOTES).write_text(text)
    remains.remove_remains(run, None)
    assert not folder.exists()
    assert temporary.exists()


def test_the_record_of_a_launch_on_several_hosts_stays_until_one_ends_by_itself(memory, run):
    record = remains.write_record(run, "a1", [], alone=False)
    remains.remove_remains(run, None)
    assert record.exists()
    here = remains.write_record(run, "b2", [], alone=True)
    remains.forget_launches(run, everywhere=True)
    assert not record.exists()
    assert here.exists()


def test_a_finished_run_is_cleaned_up_unless_somebody_works_there(memory, run):
    from mpi_gt.rundir.lock import claim

    folder, _, record = make_launch(memory, run, "a1")
    with claim(run):
        clean_up(run)
        assert folder.exists()
    clean_up(run)
    assert not folder.exists()
    assert not record.exists()


def begun(out, temporary):
    return len(ranks_of(out)) > 0


def initializing(out, temporary):
    (launch,) = out.glob(f"{LAUNCHES}*")
    folder = private.private_folder(SHARED_MEMORY, launch.name.removeprefix(LAUNCHES))
    return any(folder.glob("*segment*")) or (folder / remains.NOTES).exists()


def iterating(out, temporary):
    return (out / "checkpoints" / "b").exists()


def ending(out, temporary):
    return any(temporary.glob(".mpi-gt-*/outcome"))


def victims(kind, process, out):
    if kind == "front end":
        return [process.pid]
    return ranks_of(out) if kind == "ranks" else children_of(process.pid)


def kill_and_resume(mpi, moment, victim, out):
    """Kill a run at a moment, resume it, check that nothing is left; return what MPICH had."""
    env = temporary_files()
    temporary = Path(env["TMPDIR"])
    words = ["run", "-n", "2", "--iterations", "1000", "--out", out, "--quiet"]
    words += ["--log-every", "50", "--checkpoint-every", "50"]
    process = start(mpi.mpi_gt(*words), env=env)
    wait_for(lambda: any(out.glob(f"{LAUNCHES}*")))
    (record,) = out.glob(f"{LAUNCHES}*")
    folder = private.private_folder(SHARED_MEMORY, record.name.removeprefix(LAUNCHES))
    wait_for(lambda: moment(out, temporary) or process.poll() is not None)
    segments = read_own_table(folder / remains.NOTES).get("segments", [])
    for pid in victims(victim, process, out):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    finish(process, limit=30)
    again = finish(start(mpi.mpi_gt(*words, "--resume"), env=env), limit=60)
    # the ranks of a killed front end may have finished the run in the meantime
    assert again.code == 0 or "is finished" in again.err, again
    assert not list(out.glob(f"{LAUNCHES}*"))
    assert not list(temporary.iterdir())
    assert not folder.exists()
    assert not [path for each in segments for path in SHARED_MEMORY.glob(f"{each}*")]
    return segments


MOMENTS = [
    (moment, victim)
    for moment in (begun, initializing, iterating, ending)
    for victim in ("mpirun", "front end", "ranks")
    if victim != "ranks" or moment is iterating
]


@pytest.mark.parametrize(("moment", "victim"), MOMENTS)
def test_a_run_that_is_killed_at_any_moment_leaves_nothing(openmpi, moment, victim, tmp_path):
    kill_and_resume(openmpi, moment, victim, tmp_path / "run")


@pytest.mark.parametrize("victim", ["mpirun", "front end", "ranks"])
def test_a_killed_run_of_mpich_leaves_nothing(mpich, victim, tmp_path):
    assert kill_and_resume(mpich, iterating, victim, tmp_path / "run")


def test_ranks_that_outlive_a_killed_mpirun_are_ended(openmpi, tmp_path):
    out, env = tmp_path / "run", temporary_files()
    words = ["run", "-n", "2", "--iterations", "10000000", "--out", out, "--quiet"]
    process = start(openmpi.mpi_gt(*words, "--checkpoint-every", "50"), env=env)
    wait_for(lambda: iterating(out, None))
    for pid in ranks_of(out):
        os.kill(pid, signal.SIGSTOP)
    for pid in children_of(process.pid):
        os.kill(pid, signal.SIGKILL)
    assert finish(process, limit=30).code == 1
    wait_for(lambda: not ranks_of(out), limit=5)
    assert not list(Path(env["TMPDIR"]).iterdir())
    assert not list(out.glob(f"{LAUNCHES}*"))


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_pipe_in_place_of_a_record_does_not_block(memory, run):
    os.mkfifo(run / f"{LAUNCHES}abc")
    remains.remove_remains(run, None)
    assert list(run.iterdir()) == []
