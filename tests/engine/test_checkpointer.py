"""When a run writes checkpoints, and the stop file."""

import signal
import threading
import time

import pytest
from resuming import assert_same, resume, run, stopped, table

import mpi_gt
from mpi_gt.errors import Stopped, StorageError
from mpi_gt.rundir.checkpoint import glance, part_path
from mpi_gt.rundir.run_json import read_facts


def test_minutes(tmp_path):
    out = tmp_path / "run"
    run(out, "--iterations", "3000", "--checkpoint-minutes", "0.001")
    iterations = [glance(part_path(out, slot, 0))["iteration"] for slot in (0, 1)]
    assert max(iterations) == 3000
    assert 0 < min(iterations) < 3000


def test_the_stop_file_and_the_api(tmp_path):
    """Without the command line no signal is caught, but the file stops the run."""
    out = tmp_path / "run"
    options = {"stacked": True, "n": 4, "log_every": 7, "seeds": 2, "out": str(out)}

    def ask():
        while not (out / "metrics.csv").exists() or len(table(out)) < 4:
            time.sleep(0.01)
        (out / "stop").touch()

    threading.Thread(target=ask).start()
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)]
    with pytest.raises(Stopped):
        mpi_gt.run(**options, iterations=10**8)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)] == handlers
    at = read_facts(out)["stopped"]["iteration"]
    mpi_gt.run(**{**options, "iterations": at + 10, "resume": True})
    assert not (out / "stop").exists()
    assert [row["iteration"] for row in table(out)][-1] == str(at + 10)


@pytest.mark.parametrize("layout", ["rank", "host"])
def test_a_stacked_run_has_one_file_and_stages_it(tmp_path, monkeypatch, layout):
    out, scratch, reference = (tmp_path / name for name in ("run", "scratch", "reference"))
    scratch.mkdir()
    run(reference)
    words = ["--checkpoint-every", "7", "--checkpoint-layout", layout]
    words += ["--checkpoint-staging", str(scratch)]
    stopped(monkeypatch, out, *words)
    for slot, at in ((0, 31), (1, 28)):
        assert [path.name for path in (out / "checkpoints" / "ab"[slot]).iterdir()] == [
            "node-00000"
        ]
        assert glance(part_path(out, slot, 0))["iteration"] == at
    assert not list(scratch.iterdir())
    resume(out)
    assert read_facts(out)["resumes"][0]["iteration"] == 31
    assert_same(out, reference)
    assert not list(scratch.iterdir())
    assert not list(out.glob(".launch-*"))


def test_a_copy_that_fails_ends_the_run_before_the_next_checkpoint(tmp_path, monkeypatch):
    from mpi_gt.rundir import staging

    def fail(path, pieces):
        raise StorageError(f"cannot write {path}: full")

    monkeypatch.setattr(staging, "write_atomic", fail)
    with pytest.raises(StorageError, match="node-00000: full"):
        mpi_gt.run(stacked=True, n=2, iterations=10**7, log_every=1, out=str(tmp_path / "run"),
                   checkpoint_every=20, checkpoint_staging=str(tmp_path))  # fmt: skip
    assert read_facts(tmp_path / "run")["status"] == "failed"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("folder", ["missing", "file", ""])
def test_scratch_that_cannot_be_used(tmp_path, monkeypatch, capsys, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    run(tmp_path / "run", f"--checkpoint-staging={folder}", expect=2)
    assert capsys.readouterr().err.count(f"checkpoint-staging: '{folder}' on ") == 1
    assert not (tmp_path / "run").exists()


def test_layout_and_scratch_are_no_part_of_the_identity(tmp_path):
    plain, other = tmp_path / "plain", tmp_path / "other"
    run(plain)
    run(other, "--checkpoint-layout", "host", "--checkpoint-staging", str(tmp_path))
    assert read_facts(plain)["identity"] == read_facts(other)["identity"]
