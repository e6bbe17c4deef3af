"""Checkpoints that are written to scratch and copied from there by a thread."""

import errno
import os
import threading

import pytest

from mpi_gt.errors import StorageError, UserError
from mpi_gt.rundir import private, remains, staging
from mpi_gt.rundir.layout import LAUNCHES
from mpi_gt.rundir.staging import Staging, require_scratch, scratch_folder


@pytest.fixture
def scratch(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "run").mkdir()
    return tmp_path / "scratch"


def make(scratch, name="a1", is_first=True):
    return Staging(scratch, name, scratch.parent / "run", is_first)


def test_a_file_is_copied_and_nothing_is_left(scratch, monkeypatch):
    monkeypatch.setattr(staging, "BLOCK", 3)
    target = scratch.parent / "run" / "part"
    staged = make(scratch)
    for content in (b"0123456789", b"", b"abc"):
        staged.write(target, [content[:2], memoryview(content)[2:]])
        staged.wait()
        assert target.read_bytes() == content
    staged.wait()
    assert [path.name for path in target.parent.iterdir()].count("part") == 1
    assert len(list(scratch.iterdir())) == len(list(target.parent.glob(f"{LAUNCHES}*"))) == 1
    staged.leave()
    staged.leave()
    assert not list(scratch.iterdir())
    assert [path.name for path in target.parent.iterdir()] == ["part"]


def test_the_run_goes_on_while_a_file_is_copied(scratch, monkeypatch):
    going, target = threading.Event(), scratch.parent / "run" / "part"
    write_atomic = staging.write_atomic

    def slow(path, pieces):
        assert going.wait(30)
        write_atomic(path, pieces)

    monkeypatch.setattr(staging, "write_atomic", slow)
    target.write_bytes(b"old")
    staged = make(scratch)
    staged.write(target, [b"new"])
    assert target.read_bytes() == b"old"
    going.set()
    staged.wait()
    assert target.read_bytes() == b"new"
    staged.leave()


def test_the_error_of_a_copy_is_that_of_a_direct_write(scratch):
    target = scratch.parent / "run" / "missing" / "part"
    staged = make(scratch)
    staged.write(target, [b"new"])
    with pytest.raises(StorageError, match=f"cannot write {target}: No such file"):
        staged.wait()
    staged.wait()  # it is said once
    staged.write(target, [b"new"])
    staged._copying.join()
    with pytest.raises(StorageError):
        staged.require_success()
    staged.leave()
    assert not list(scratch.iterdir())


def test_scratch_that_is_full_or_gone(scratch, monkeypatch):
    target = scratch.parent / "run" / "part"
    staged = make(scratch)

    def pieces():
        yield b"new"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StorageError, match=r"cannot write .*scratch/\.mpi-gt-a1/part: No space"):
        staged.write(target, pieces())
    private.remove(private.private_folder(scratch, "a1"))
    with pytest.raises(StorageError, match=r"cannot write .*scratch/\.mpi-gt-a1/part: No such"):
        staged.write(target, [b"new"])
    staged.leave()
    assert not target.exists()


def test_a_copy_that_takes_too_long_when_the_run_has_failed(scratch, monkeypatch):
    monkeypatch.setattr(staging, "PATIENCE", 0.1)
    monkeypatch.setattr(staging, "BLOCK", 1)
    target, going = scratch.parent / "run" / "part", threading.Event()
    blocks = Staging._blocks

    def slow(self, file):
        for block in blocks(self, file):
            assert going.wait(30)
            yield block

    monkeypatch.setattr(Staging, "_blocks", slow)
    staged = make(scratch)
    staged.write(target, [b"new"])
    threading.Timer(0.15, going.set).start()
    copying = staged._copying
    staged.leave()
    copying.join(30)
    assert not list(scratch.iterdir())
    assert list(target.parent.iterdir()) == []


def test_the_last_rank_of_a_host_removes_the_folder(scratch):
    first, second = make(scratch), make(scratch, is_first=False)
    first.leave()
    assert private.private_folder(scratch, "a1").exists()
    second.leave()
    assert not list(scratch.iterdir())
    assert not list((scratch.parent / "run").iterdir())


def test_what_a_killed_run_has_staged_is_removed_by_the_next_one(scratch, monkeypatch):
    monkeypatch.setattr(remains, "MEMORY", scratch.parent)
    run = scratch.parent / "run"
    staged = make(scratch)
    (private.private_folder(scratch, "a1") / "node-00000").write_bytes(b"torn")
    remains.remove_remains(run, None)  # it is in use
    assert len(list(scratch.iterdir())) == 1
    os.close(staged._lock)  # as the kernel does for a killed process
    remains.remove_remains(run, None)
    assert not list(scratch.iterdir())
    assert not list(run.iterdir())


def test_folders_that_cannot_be_used(scratch):
    (scratch.parent / "file").touch()
    require_scratch(str(scratch))
    assert not list(scratch.iterdir())
    for name in ("", "missing", "file", "file/below", "x" * 300):
        with pytest.raises(UserError, match="checkpoint-staging: '"):
            require_scratch(str(scratch.parent / name) if name else "")
    with pytest.raises(UserError, match=r"'/proc' on .* cannot be written to"):
        require_scratch("/proc")


def test_variables_have_the_values_of_the_host(scratch, monkeypatch):
    monkeypatch.setenv("OF_THE_JOB", str(scratch.parent))
    require_scratch("$OF_THE_JOB/scratch")
    assert scratch_folder("${OF_THE_JOB}/scratch") == scratch
    with pytest.raises(UserError, match=r"'\$OF_NOBODY/scratch'"):
        require_scratch("$OF_NOBODY/scratch")
