"""One process at a time uses a directory."""

import os
import subprocess
import sys
import time

import pytest

from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.rundir.lock import LOCK_FILE, TOKEN, claim, require_unclaimed

RUN = ["run", "--stacked", "-n", "3", "--iterations", "5", "--quiet"]


def test_the_second_claim_names_the_holder(tmp_path):
    with (
        claim(tmp_path / "a"),
        pytest.raises(UserError, match=f"in use by process {os.getpid()} on .* since 20"),
    ):
        claim(tmp_path / "a")
    claim(tmp_path / "a").release()
    assert list((tmp_path / "a").iterdir()) == []


def test_a_rank_works_under_the_claim_of_its_front_end(tmp_path, monkeypatch):
    with claim(tmp_path) as held:
        monkeypatch.setenv(TOKEN, held.token)
        claim(tmp_path).release()  # leaves the front end's claim as it is
        monkeypatch.setenv(TOKEN, "of another run")
        with pytest.raises(UserError, match="in use"):
            claim(tmp_path)


def test_a_killed_holder_leaves_no_claim(tmp_path):
    code = (
        "import pathlib, sys, time; from mpi_gt.rundir.lock import claim; "
        f"held = claim(pathlib.Path({str(tmp_path)!r})); print('ready', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with pytest.raises(UserError, match=f"process {process.pid} "):
        require_unclaimed(tmp_path)
    process.kill()
    process.wait()
    process.stdout.close()
    assert (tmp_path / LOCK_FILE).exists()
    claim(tmp_path).release()


@pytest.mark.parametrize("flag", ["--resume", "--overwrite", None])
def test_a_command_on_a_claimed_directory_is_refused(flag, tmp_path, capsys):
    out = tmp_path / "run"
    with claim(out):
        assert main([*RUN, "--out", str(out), *([flag] if flag else [])]) == 2
        assert "in use by process" in capsys.readouterr().err
        assert [path.name for path in out.iterdir()] == [LOCK_FILE]
    assert main([*RUN, "--out", str(out), "--overwrite"]) == 0
    assert not (out / LOCK_FILE).exists()


def test_a_refused_run_leaves_nothing(tmp_path, capsys):
    words = [*RUN, "--x1", "absent.npy", "--out", str(tmp_path / "a" / "b")]
    assert main(words) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["metrics.csv", "checkpoints", "gap.png", "run.json"])
def test_links_are_refused(name, tmp_path, capsys):
    """What they point to is somebody else's."""
    other = tmp_path / "other"
    other.write_text("keep")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(other)
    assert main([*RUN, "--out", str(tmp_path / "run"), "--overwrite"]) == 2
    assert "symbolic link" in capsys.readouterr().err
    assert other.read_text() == "keep"


def test_two_processes_at_once_do_not_share_a_directory(tmp_path):
    """Many start at the same moment: one runs, the others are refused."""
    words = [sys.executable, "-m", "mpi_gt", *RUN, "--iterations", "3000", "--overwrite"]
    processes = [
        subprocess.Popen([*words, "--out", str(tmp_path / "run")], stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    time.sleep(0.1)
    errors = [process.communicate(timeout=100)[1].decode() for process in processes]
    codes = [process.returncode for process in processes]
    assert codes.count(0) >= 1
    assert sorted(set(codes)) in ([0], [0, 2])
    assert all("in use by" in error for error, code in zip(errors, codes, strict=True) if code)
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert len(rows) == len(set(rows)) == 1 + 201


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "\0"])
def test_a_damaged_lock_that_is_held_names_no_holder(tmp_path, content):
    with claim(tmp_path):
        (tmp_path / LOCK_FILE).write_text(content)
        with pytest.raises(UserError, match="in use by another run"):
            claim(tmp_path)
