"""The run directory: its files, overwriting, a full disk, rows as they were written."""

import csv
import json
import os
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest
from resuming import assert_same, resume, run, stopped

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.rundir.metrics_csv import COLUMNS, MetricsBlock
from mpi_gt.rundir.run_directory import RunDirectory, is_held
from mpi_gt.rundir.run_json import read_facts


def stacked(**options):
    return mpi_gt.run(**{"stacked": True, "n": 5, "iterations": 50, **options})


def rows(directory):
    with (directory / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.figures
def test_run_directory(tmp_path):
    out = tmp_path / "deep" / "run"
    result = stacked(seeds=2, out=str(out))
    assert {path.name for path in out.iterdir()} == {
        "run.json", "metrics.csv", "final.npz", "loss.png", "gap.png",
    }  # fmt: skip
    facts = json.loads((out / "run.json").read_text())
    assert facts["status"] == "finished"
    assert facts["config"]["seeds"] == 2
    assert facts["graph"]["nodes"] == 5
    assert 0 < facts["graph"]["rho_A"] < 1
    assert facts["seconds_per_iteration"] > 0
    assert facts["final"]["gap"] == pytest.approx(
        np.mean([float(row["gap"]) for row in rows(out)[-2:]])
    )
    with np.load(out / "final.npz") as file:
        np.testing.assert_array_equal(file["x"], result.x)
        assert file["x"].shape == (5, 2, 10)
    table = rows(out)
    assert tuple(table[0]) == (*COLUMNS, "suboptimality")  # f* is known
    for row in table:
        gap = float(row["grad_norm2"]) + float(row["consensus"])
        assert float(row["gap"]) == pytest.approx(gap)
        assert row["accuracy"] == ""
    vectors, entry, directed_edges = 2, 8, 2 * facts["graph"]["edges"]
    per_iteration = directed_edges * vectors * 10 * entry
    assert int(table[-1]["bytes"]) == 50 * per_iteration
    assert facts["bytes_sent"] == 2 * 50 * per_iteration


def test_overwriting_destroys_nothing_where_it_cannot_work(tmp_path):
    out = tmp_path / "run"
    (out / "loss.png").mkdir(parents=True)
    (out / "run.json").write_text("keep")
    with pytest.raises(UserError, match=r"loss\.png"):
        stacked(out=str(out), overwrite=True)
    assert (out / "run.json").read_text() == "keep"


def test_existing_directory_is_never_overwritten_unasked(tmp_path):
    out = tmp_path / "run"
    stacked(out=str(out))
    (out / "notes.txt").write_text("mine")
    before = (out / "run.json").read_text()
    with pytest.raises(UserError, match="overwrite"):
        stacked(out=str(out))
    assert (out / "run.json").read_text() == before
    stacked(out=str(out), overwrite=True, seeds=2)
    assert len(np.load(out / "final.npz")["x"][0]) == 2
    assert (out / "notes.txt").read_text() == "mine"


def test_default_directory_is_named_after_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # both within one second
        assert main(["run", "--stacked", "-n", "3", "--iterations", "5", "--quiet"]) == 0
    names = [path.name for path in (tmp_path / "runs").iterdir()]
    assert len(names) == 2
    assert all("-huber-gt-adaptive" in name for name in names)


def test_rows_of_any_label_are_read_as_they_were_written(tmp_path):
    directory = RunDirectory(tmp_path)
    directory.begin()
    told = []
    for label in ("gt:lr=0.1,order=atc", 'mine:"100%",%s %d%%', "plain"):
        metrics = [0.1, 5e-324], [1e-300, 1e300], [-0.0, 2 / 3], [1e22, 1e16], None, [0.5, 1.0]
        block = MetricsBlock(label, (0, 2**64 - 1), 7, metrics, 1e-06, 2**60, 2**50)
        directory.append(block)
        rows = list(block.rows())
        assert rows[0] == (label, 0, 7, 0.1, 1e-300, -0.0, 1e22, None, 0.5, 1e-06, 2**60, 2**50)
        told += [row._asdict() for row in rows]
    assert len(told) == 6
    assert directory.rows_until(directory.mark()) == told
    with (tmp_path / "metrics.csv").open(newline="") as file:
        assert {row["algorithm"] for row in csv.DictReader(file)} == {r["algorithm"] for r in told}
    directory.unlock()


def test_overwriting_removes_what_a_run_has_left_and_nothing_else(tmp_path, monkeypatch):
    out = tmp_path / "run"
    stopped(monkeypatch, out, "--checkpoint-every", "10")
    (out / "stop").touch()
    (out / "checkpoints" / "mine").write_text("keep")
    run(out, "--overwrite")
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["mine"]
    assert not (out / "stop").exists()


def test_a_full_disk_is_one_clear_error_and_the_checkpoint_is_kept(tmp_path):
    """A limit on the size of files stands for the full disk; metrics.csv reaches it first."""
    out = tmp_path / "run"
    words = ["run", "--stacked", "-n", "4", "--iterations", "60", "--log-every", "1", "--seeds"]
    words += ["2", "--checkpoint-every", "5", "--quiet"]
    small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))  # noqa: E731
    done = subprocess.run(
        [sys.executable, "-m", "mpi_gt", *words, "--out", str(out)],
        preexec_fn=small, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"cannot write {out}/metrics.csv: File too large" in done.stderr
    assert read_facts(out)["status"] == "failed"
    resume(out)
    run(tmp_path / "whole", "--log-every", "1")
    assert_same(out, tmp_path / "whole")
    assert read_facts(out)["resumes"][0]["iteration"] > 0


def test_a_directory_that_is_gone(tmp_path, monkeypatch, capsys):
    from mpi_gt.engine.checkpointer import Checkpointer

    out = tmp_path / "run"
    poll_stop = Checkpointer.poll_stop

    def removing(self, t):
        if t == 20:
            out.rename(tmp_path / "elsewhere")
            for file in (tmp_path / "elsewhere").iterdir():
                file.unlink()
        poll_stop(self, t)

    monkeypatch.setattr(Checkpointer, "poll_stop", removing)
    monkeypatch.setattr("mpi_gt.engine.stop.POLL_SECONDS", 0)
    run(out, expect=1)
    assert f"cannot write {out}/metrics.csv: it was removed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["final.part", "checkpoints", "watchdog", "inputs"])
def test_a_file_in_place_of_a_folder_is_refused_before_anything_is_done(tmp_path, name):
    stacked(out=str(tmp_path / "run"))
    (tmp_path / "run" / name).write_text("mine")
    for options in ({"resume": True, "iterations": 60}, {"overwrite": True}):
        with pytest.raises(UserError, match=f"{name} is no directory"):
            stacked(out=str(tmp_path / "run"), **options)
    assert (tmp_path / "run" / name).read_text() == "mine"


def test_a_pipe_in_place_of_metrics_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "metrics.csv")
    assert is_held(tmp_path) is None


@pytest.mark.parametrize("name", ["checkpoints/a", "checkpoints/b", "points"])
def test_a_linked_folder_within_is_refused_and_what_it_holds_stays(tmp_path, name):
    out, outside = tmp_path / "run", tmp_path / "outside"
    stacked(out=str(out), checkpoint_every=20)
    outside.mkdir()
    (outside / "node-00000").write_text("precious")
    shutil.rmtree(out / name, ignore_errors=True)
    (out / name).symlink_to(outside)
    for options in ({"resume": True, "iterations": 60}, {"overwrite": True}):
        with pytest.raises(UserError, match=f"{name} is a symbolic link"):
            stacked(out=str(out), checkpoint_every=20, **options)
    assert (outside / "node-00000").read_text() == "precious"
