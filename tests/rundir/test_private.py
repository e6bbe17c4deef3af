"""Private folders: in use while a process that holds their lock is alive, and no longer."""

import os
import subprocess
import sys
import threading
import time

import pytest

from mpi_gt.rundir import private

USER = (
    "import sys; from pathlib import Path; from mpi_gt.rundir import private\n"
    "private.use(Path(sys.argv[1]), make=True); print('ready', flush=True); sys.stdin.read()"
)


@pytest.fixture
def folder(tmp_path):
    return private.private_folder(tmp_path, "abc1")


def is_unused(folder, patience=0.0):
    with private.unused(folder, time.monotonic() + patience) as free:
        return free


def test_a_folder_is_in_use_until_its_file_is_closed(folder):
    first, second = private.use(folder, make=True), private.use(folder, make=False)
    assert not is_unused(folder)
    assert not private.is_last(first)
    os.close(first)
    assert private.is_last(second)
    os.close(second)
    assert is_unused(folder)


def test_a_killed_process_uses_it_no_longer(folder):
    words = [sys.executable, "-c", USER, str(folder)]
    user = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    user.stdout.readline()
    assert not is_unused(folder)
    user.kill()
    user.communicate()
    assert is_unused(folder)


def test_processes_that_use_it_can_be_ended(folder, tmp_path):
    other = private.private_folder(tmp_path, "other")
    words = [[sys.executable, "-c", USER, str(each)] for each in (folder, other)]
    users = [
        subprocess.Popen(each, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for each in words
    ]
    for user in users:
        user.stdout.readline()
    private.end_users(folder)
    assert is_unused(folder, patience=10)
    assert not is_unused(other)
    for user in users:
        user.communicate()
    assert [user.returncode for user in users] == [-9, 0]


def test_a_process_that_inherits_the_file_uses_it(folder):
    file = private.use(folder, make=True)
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[file])
    os.close(file)
    assert not is_unused(folder)
    child.communicate()
    assert is_unused(folder)


def test_a_folder_that_was_removed_is_made_again_only_if_asked(folder):
    os.close(private.use(folder, make=True))
    private.remove(folder)
    assert not folder.exists()
    with pytest.raises(FileNotFoundError):
        private.use(folder, make=False)
    assert not folder.exists()
    os.close(private.use(folder, make=True))
    assert private.exists(folder)


def test_a_folder_that_another_rank_removes_just_then_is_made_again(folder, monkeypatch):
    is_own, removed = private._is_own, []

    def removed_before(path):
        if not removed:
            removed.append(path.rmdir())
        return is_own(path)

    monkeypatch.setattr(private, "_is_own", removed_before)
    os.close(private.use(folder, make=True))
    assert (folder / private.LOCK).exists()
    with pytest.raises(FileNotFoundError):  # and not for ever where none can be made
        private.use(folder / "missing" / "one", make=True)


def test_who_comes_while_a_folder_is_removed_does_not_use_the_removed_one(folder):
    os.close(private.use(folder, make=True))
    files = []
    with private.unused(folder, 0) as free:
        assert free
        late = threading.Thread(target=lambda: files.append(private.use(folder, make=True)))
        late.start()
        time.sleep(0.1)
        private.remove(folder)
    late.join(timeout=10)
    assert os.path.samestat(os.fstat(files[0]), (folder / private.LOCK).stat())
    os.close(files[0])


def test_all_content_is_removed_but_no_link_is_followed(folder, tmp_path):
    os.close(private.use(folder, make=True))
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "deep" / "link").symlink_to(precious)
    (folder / "link").symlink_to(precious)
    private.remove(folder)
    assert not folder.exists()
    assert (precious / "file").exists()


def test_links_files_and_other_names_are_no_private_folders(folder, tmp_path):
    assert not private.exists(folder)
    folder.touch()
    assert not private.exists(folder)
    folder.unlink()
    folder.symlink_to(tmp_path)
    assert not private.exists(folder)
    with pytest.raises(PermissionError):
        private.use(folder, make=False)
    assert not private.exists(tmp_path)
