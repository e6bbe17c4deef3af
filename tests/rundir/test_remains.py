"""What a killed run leaves behind: its own segments are removed, and no others."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import finish, ranks_of, start, temporary_files, wait_for

from mpi_gt.rundir import remains


@pytest.fixture
def memory(tmp_path, monkeypatch):
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(remains, "MEMORY", folder)
    monkeypatch.setattr(remains, "PATIENCE", 0.1)
    return folder


def record(directory, **content):
    full = {"space": remains._space(), "segments": [], "folders": [], **content}
    remains._file(directory).write_text(json.dumps(full))


def test_only_the_segments_of_this_run_are_removed(memory, tmp_path):
    own = ["sm_segment.vm.0.c550001.0", "sm_segment.vm.0.c550001.17", "mpich_shm_38cf6a60_0"]
    other = ["sm_segment.vm.0.c550002.0", "mpich_shm_38cf6a61_0", "sm_segment.vm.0.c550001.x", "a"]
    for name in (*own, *other):
        (memory / name).touch()
    record(tmp_path, segments=["sm_segment.vm.0.c550001.", "mpich_shm_38cf6a60_", "", "../", "a"])
    remains.remove_remains(tmp_path)
    assert sorted(path.name for path in memory.iterdir()) == sorted(other)
    assert not remains._file(tmp_path).exists()


def test_what_a_process_uses_stays(memory, tmp_path):
    segment = memory / "mpich_shm_1_0"
    segment.write_bytes(bytes(4096))
    code = (
        "import mmap, sys\n"
        f"file = open({str(segment)!r}, 'r+b')\n"
        "memory = mmap.mmap(file.fileno(), 4096)\nprint('ready', flush=True)\nsys.stdin.read()"
    )
    user = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    user.stdout.readline()
    record(tmp_path, segments=["mpich_shm_1_"])
    remains.remove_remains(tmp_path)
    assert segment.exists()
    user.communicate()
    record(tmp_path, segments=["mpich_shm_1_"])
    remains.remove_remains(tmp_path)
    assert not segment.exists()


def test_folders_of_live_processes_and_of_others_stay(memory, tmp_path):
    names = (f"ompi.{os.getpid()}", "ompi.4194300", "precious", ".mpi-gt-abc_1")
    for name in names:
        (tmp_path / name).mkdir()
    record(tmp_path, folders=[str(tmp_path / name) for name in names])
    remains.remove_remains(tmp_path)
    assert [(tmp_path / name).exists() for name in names] == [True, False, True, True]
    record(tmp_path, folders=[str(tmp_path / name) for name in names], space="another")
    remains.remove_remains(tmp_path, with_outcome=True)
    assert (tmp_path / ".mpi-gt-abc_1").exists()  # it cannot be seen from here who is alive
    record(tmp_path, folders=[str(tmp_path / name) for name in names])
    remains.remove_remains(tmp_path, with_outcome=True)
    assert not (tmp_path / ".mpi-gt-abc_1").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"space": 1, "segments": 5}', "null"])
def test_a_damaged_record_does_no_harm(text, memory, tmp_path):
    remains._file(tmp_path).write_text(text)
    remains.remove_remains(tmp_path)


def segments_of(pids):
    found = {path for pid in pids for path in remains._mapped(str(pid))}
    return {path for path in found if remains.SEGMENT.fullmatch(path.name)}


@pytest.mark.parametrize("victim", ["ranks", "mpirun", "front end"])
def test_a_killed_run_leaves_nothing(mpi, victim, tmp_path):
    out, env = tmp_path / "run", temporary_files()
    words = ["run", "-n", "3", "--iterations", "10000000", "--out", out, "--quiet"]
    process = start(mpi.mpi_gt(*words, "--log-every", "50", "--checkpoint-every", "200"), env=env)
    wait_for(lambda: (out / "checkpoints" / "b").exists())
    ranks = ranks_of(out)
    segments = segments_of(ranks)
    assert segments
    parents = {"ranks": ranks, "front end": [process.pid], "mpirun": children_of(process.pid)}
    for pid in parents[victim]:
        os.kill(pid, signal.SIGKILL)
    finish(process, limit=30)
    wait_for(lambda: not ranks_of(out), limit=15)
    if victim == "front end":  # nobody was left to do it: the next run does
        again = start(mpi.mpi_gt("resume", out, "--quiet"), env=env)
        wait_for(lambda: ranks_of(out) and not any(path.exists() for path in segments))
        again.terminate()
        assert finish(again).code == 85
    assert not any(path.exists() for path in segments)
    assert not list(out.glob(".segments-*"))
    assert not list(Path(env["TMPDIR"]).glob(".mpi-gt*"))
    assert not list(Path(env["TMPDIR"]).glob("ompi.[0-9]*"))


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
