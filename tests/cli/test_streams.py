"""Standard output and error whose reader has gone away, whose disk is full, or that are closed."""

import json
import os
import subprocess
import sys
import time

import pytest
from support import facts, plain_environment

from mpi_gt.cli.main import main
from mpi_gt.cli.streams import Sink, Streams, lost_output

COMMAND = f"'{sys.executable}' -m mpi_gt"


def shell(line, cwd=None, **env):
    """Run a line of bash; return the result of its last command."""
    script = f"set -o pipefail\n{line}"
    environment = {**plain_environment(), **env}
    return subprocess.run(
        ["bash", "-c", script],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_sink_outlives_its_reader():
    read, write = os.pipe()
    sink = Sink(write, may_drop=False)
    assert sink.write(b"one") == 3
    assert sink.lost is None
    os.close(read)
    assert sink.write(b"two") == 3
    assert isinstance(sink.lost, BrokenPipeError)
    assert sink.write(b"three") == 5
    os.close(write)


def test_a_rank_does_not_wait_for_a_reader_that_sleeps(monkeypatch):
    monkeypatch.setattr("mpi_gt.cli.streams.PATIENCE", 0.1)
    read, write = os.pipe()
    sink = Sink(write, may_drop=True)
    begin = time.monotonic()
    for _ in range(100):
        assert sink.write(bytes(4096)) == 4096
    assert 0.1 <= time.monotonic() - begin < 5
    assert len(os.read(read, 1 << 20)) < 100 * 4096
    assert sink.write(b"end") == 3
    assert os.read(read, 10) == b"end"
    os.close(read)
    os.close(write)


def test_streams_are_given_back(monkeypatch):
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:  # noqa: PTH123
        patch.setattr("sys.stdout", full)
        with Streams(on_rank=False):
            print("lost")
            assert "No space left" in str(lost_output())
        assert sys.stdout is full


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (f"{COMMAND} manual running | true", 141, ""),
        (f"{COMMAND} describe algorithm gt >/dev/full", 141, "standard output: No space left"),
        (f"{COMMAND} --help >/dev/full", 141, "standard output: No space left"),
        (f"{COMMAND} graph ring -n 4 >&-", 0, ""),
        (f"{COMMAND} nonsense >&- 2>&-", 2, ""),
        (f"{COMMAND} run --stacked -n 2 --iterations 5 --out run >/dev/full 2>&1", 0, ""),
    ],
)
def test_commands_without_a_reader(line, code, message, tmp_path):
    done = shell(line, tmp_path)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == bool(message), done.stderr


def test_a_run_goes_on_without_its_reader(mpi, tmp_path):
    line = f"'{mpi.python}' -m mpi_gt run -n 2 --iterations 40 --log-every 1 --out run"
    for ending in ("2>&1 | true", ">&- 2>&-", ">/dev/full 2>&1"):
        done = shell(f"{line} --overwrite {ending}", tmp_path)
        assert done.returncode == 0, (ending, done.stderr)
        assert done.stderr == "", ending
        assert facts(tmp_path / "run")["status"] == "finished"


def test_a_view_ends_with_its_reader(tmp_path):
    (tmp_path / "run").mkdir()
    process = {"host": "x", "pid": os.getpid()}
    facts = {"status": "running", "config": {"iterations": 9}, "process": process}
    (tmp_path / "run" / "run.json").write_text(json.dumps(facts))
    done = shell(f"timeout 20 {COMMAND} watch run --every 0.05 | true", tmp_path)
    assert done.returncode == 141, done.stderr


def test_the_current_folder_was_removed(tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    try:
        assert main(["run", "-n", "2"]) == 2
    finally:
        os.chdir(tmp_path)
    assert capsys.readouterr().err == (
        "mpi-gt: error: the current folder was removed: cd to one that exists\n"
    )


def test_warnings_that_are_errors_and_a_plain_locale(openmpi, tmp_path):
    """Also on the ranks, and with file names that this locale cannot read."""
    env = {"PYTHONWARNINGS": "error", "LC_ALL": "C", "PYTHONUTF8": "0"}
    line = f"'{openmpi.python}' -m mpi_gt run -n 2 --iterations 5 --out 'a folder ü'"
    done = shell(f"{line} && '{openmpi.python}' -m mpi_gt status 'a folder ü'", tmp_path, **env)
    assert done.returncode == 0, done.stderr
    assert facts(tmp_path / "a folder ü")["status"] == "finished"


def test_a_temporary_folder_that_cannot_be_used(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TMPDIR", "/dev/null")
    assert main(["run", "-n", "2", "--out", str(tmp_path / "run")]) == 2
    assert "TMPDIR is /dev/null" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_no_home_folder(openmpi, tmp_path):
    done = shell(
        f"env -u HOME '{openmpi.python}' -m mpi_gt run -n 2 --iterations 5 --out run", tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_a_stream_that_users_code_closes_stays_open(tmp_path):
    (tmp_path / "mine.py").write_text("import sys\nsys.stdout.close()\nsys.stderr.close()\n")
    done = shell(f"{COMMAND} run --stacked -n 3 --algorithm mine:Mine", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("mpi-gt: error: algorithm mine:Mine: the module has no such")
