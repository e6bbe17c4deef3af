"""Stopped or damaged runs in one process: once resumed, they end like an undisturbed run.

The same on real ranks is in tests/system/test_resume.py.
"""

import csv
import json
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pytest
from resuming import WORDS, assert_same, damage_flip, resume, run, stop_at, stopped, table

import mpi_gt
from mpi_gt import machine
from mpi_gt.cli.main import main
from mpi_gt.config import RunConfig
from mpi_gt.engine import resume as resume_module
from mpi_gt.engine.resume import config_of_run
from mpi_gt.errors import UserError
from mpi_gt.rundir.checkpoint import glance, part_path, read_part, write_part
from mpi_gt.rundir.run_json import read_facts


class State(NamedTuple):
    x: Any
    s: Any


def test_what_an_earlier_watchdog_said_is_gone_before_the_ranks_start(tmp_path):
    """The front end ends mpirun when a rank has given up, but not because of an old report."""
    run(tmp_path / "run")
    report = tmp_path / "run" / "watchdog" / "node-00001.json"
    report.parent.mkdir()
    report.write_text('{"waits": 1, "node": 1, "text": "stuck"}')
    options = {"out": str(tmp_path / "run"), "n": 4, "resume": True, "iterations": 100_000}
    resume_module.claim_directory(RunConfig.of(options), None)
    assert not report.exists()


@pytest.fixture
def reference(tmp_path):
    run(tmp_path / "reference")
    return tmp_path / "reference"


@pytest.mark.parametrize("every", [[], ["--checkpoint-every", "10"]])
def test_stopped_and_resumed_is_the_same_run(tmp_path, monkeypatch, capsys, reference, every):
    out = tmp_path / "run"
    stopped(monkeypatch, out, *every)
    assert f"mpi-gt resume {out}" in capsys.readouterr().err
    facts = read_facts(out)
    assert (facts["status"], facts["exit_code"]) == ("stopped", 85)
    assert facts["stopped"] == {"algorithm": "gt-adaptive", "iteration": 31}
    assert not (out / "final.npz").exists()
    resume(out)
    assert_same(out, reference)
    facts = read_facts(out)
    assert facts["status"] == "finished"
    assert [each["iteration"] for each in facts["resumes"]] == [31]
    assert facts["final"] == read_facts(reference)["final"]
    assert facts["bytes_sent"] == read_facts(reference)["bytes_sent"]


def test_time_goes_on(tmp_path, monkeypatch):
    out = tmp_path / "run"
    stopped(monkeypatch, out)
    resume(out)
    with (out / "metrics.csv").open(newline="") as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    assert seconds == sorted(seconds)


def test_a_comparison_goes_on_within_its_algorithms(tmp_path, monkeypatch):
    words = ["compare", *WORDS[1:], "--algorithms", "gt,dsgd:lr=1e308,dsgd:lr=0.1,d-amsgrad"]
    reference, out = tmp_path / "reference", tmp_path / "run"
    assert main([*words, "--out", str(reference), "--quiet"]) == 3

    from mpi_gt.engine.checkpointer import Checkpointer

    poll_stop, calls = Checkpointer.poll_stop, []

    def asking(self, t):
        calls.append(t)
        if calls.count(30) == 2:  # one method diverges before that
            self._stop.requested = True
        poll_stop(self, t)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, "poll_stop", asking)
        patch.setattr("mpi_gt.engine.stop.POLL_SECONDS", 0)  # it is called before each step then
        assert main([*words, "--out", str(out), "--quiet"]) == 85
    assert read_facts(out)["stopped"]["algorithm"] == "dsgd:lr=0.1"
    calls.clear()
    resume(out, expect=3)
    assert_same(out, reference)
    summaries = [json.loads((path / "summary.json").read_text()) for path in (out, reference)]
    for summary in summaries:
        assert summary.pop("schema") == 1
        for row in summary.values():
            row.pop("seconds_per_iteration", None)
    assert summaries[0] == summaries[1]
    assert main(["resume", str(out), "--iterations", "100"]) == 2


def test_an_interrupted_algorithm_without_checkpoint_starts_over_alone(
    tmp_path, monkeypatch, capsys
):
    words = ["compare", *WORDS[1:], "--algorithms", "gt,dsgd", "--quiet", "--out"]
    assert main([*words, str(tmp_path / "reference")]) == 0
    from mpi_gt.algorithms.dsgd import DSGD

    step, done = DSGD.step, []

    def failing(self, t, *rest):
        if t == 20 and not done:
            done.append(t)
            raise ZeroDivisionError
        return step(self, t, *rest)

    monkeypatch.setattr(DSGD, "step", failing)
    assert main([*words, str(tmp_path / "run")]) == 1
    assert read_facts(tmp_path / "run")["status"] == "failed"
    resume(tmp_path / "run")
    assert "there is no checkpoint: dsgd starts over" in capsys.readouterr().err
    assert_same(tmp_path / "run", tmp_path / "reference")


def damage_cut(path):
    path.write_bytes(path.read_bytes()[:100])


def damage_foreign(path):
    part = read_part(path)
    header = {**part.header, "identity": "another"}
    write_part(
        path, header, State(*part.arrays.values()) if len(part.arrays) == 2 else as_named(part)
    )


def as_named(part):
    from collections import namedtuple

    return namedtuple("Other", part.arrays)(**part.arrays)


@pytest.mark.parametrize("damage", [damage_flip, damage_cut, damage_foreign])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    tmp_path, monkeypatch, capsys, reference, damage
):
    out = tmp_path / "run"
    stopped(monkeypatch, out, "--checkpoint-every", "10")
    newest = max((part_path(out, slot, 0) for slot in (0, 1)), key=lambda p: glance(p)["iteration"])
    assert glance(newest)["iteration"] == 31
    damage(newest)
    resume(out)
    assert "a checkpoint cannot be used" in capsys.readouterr().err
    assert read_facts(out)["resumes"][0]["iteration"] == 30
    assert_same(out, reference)


def test_without_a_usable_checkpoint_it_starts_over(tmp_path, monkeypatch, capsys, reference):
    out = tmp_path / "run"
    stopped(monkeypatch, out, "--checkpoint-every", "10")
    for slot in (0, 1):
        damage_flip(part_path(out, slot, 0))
    resume(out)
    assert "starts over from iteration 1" in capsys.readouterr().err
    assert_same(out, reference)


@pytest.mark.parametrize("change", ["shape", "dtype", "fields"])
def test_a_sealed_part_of_another_shape_is_not_used(tmp_path, monkeypatch, capsys, change):
    stopped(monkeypatch, tmp_path / "run", "--checkpoint-every", "10")
    for slot in (0, 1):
        path = part_path(tmp_path / "run", slot, 0)
        if not path.exists():
            continue
        part = read_part(path)
        header = {key: value for key, value in part.header.items() if key != "fields"}
        names = [*part.arrays, "y"] if change == "fields" else list(part.arrays)
        kind = NamedTuple("State", [(name, Any) for name in names])
        like = part.arrays["x"][..., :-1] if change == "shape" else part.arrays["x"]
        like = like.astype(np.float32) if change == "dtype" else like
        write_part(path, header, kind(*[like] * len(names)))
    resume(tmp_path / "run")
    err = capsys.readouterr().err
    assert "is damaged: its" in err
    assert "starts over from iteration 1" in err


def test_a_folder_in_place_of_a_checkpoint_is_one_message(tmp_path, monkeypatch, capsys):
    stopped(monkeypatch, tmp_path / "run", "--checkpoint-every", "10")
    path = part_path(tmp_path / "run", 0, 0)
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    resume(tmp_path / "run", expect=2)
    assert "is a folder where a checkpoint is to be saved" in capsys.readouterr().err


def test_metrics_that_were_changed_are_not_taken_up(tmp_path, monkeypatch, capsys, reference):
    out = tmp_path / "run"
    stopped(monkeypatch, out, "--checkpoint-every", "10")
    text = (out / "metrics.csv").read_text().splitlines(keepends=True)
    text[-1] = text[-1].replace("e-", "e-1")
    (out / "metrics.csv").write_text("".join(text))  # 28: before the checkpoints, 30 and 31
    resume(out)
    assert "metrics.csv is not as it was" in capsys.readouterr().err
    assert_same(out, reference)


def test_a_torn_last_line_is_cut_off(tmp_path, monkeypatch, reference):
    out = tmp_path / "run"
    stopped(monkeypatch, out, "--checkpoint-every", "10")
    with (out / "metrics.csv").open("a") as file:
        file.write("gt-adaptive,0,35,0.1,0.2\ngt-adapt")
    resume(out)
    assert_same(out, reference)


@pytest.mark.parametrize("first", ["63", "65"])
def test_a_finished_run_is_extended(tmp_path, monkeypatch, capsys, first):
    """63 is measured anyway, 65 only as the last one: a longer run does not measure it."""
    out, reference = tmp_path / "run", tmp_path / "reference"
    run(reference, "--iterations", "100")
    run(out, "--iterations", first, "--checkpoint-every", "20")
    assert main(["resume", str(out)]) == 0
    assert "is finished" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        stop_at(patch, 80)
        resume(out, "--iterations", "100", expect=85)
    resume(out)
    assert_same(out, reference)
    assert [each["iteration"] for each in read_facts(out)["resumes"]] == [int(first), 81]
    resume(out, "--iterations", "90", expect=2)
    assert "at iteration 100 already" in capsys.readouterr().err


def test_an_extended_run_keeps_its_stride(tmp_path):
    out = tmp_path / "run"
    words = ["run", "--stacked", "-n", "3", "--quiet", "--out", str(out)]
    assert main([*words, "--iterations", "400", "--checkpoint-every", "100"]) == 0
    assert main([*words, "--iterations", "600", "--resume"]) == 0
    assert [int(row["iteration"]) for row in table(out)] == list(range(0, 601, 2))
    assert [each["iteration"] for each in read_facts(out)["resumes"]] == [400]


def test_killed_between_the_last_checkpoint_and_the_end(tmp_path, monkeypatch, reference):
    """The last checkpoint is of the last iteration, which was not yet measured."""
    from mpi_gt.engine.recorder import Recorder

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "end", lambda *rest: 1 / 0)
        run(out, "--checkpoint-every", "20", expect=1)
    resume(out)
    assert_same(out, reference)


def test_run_with_resume_begins_and_goes_on(tmp_path, monkeypatch, reference):
    out = tmp_path / "run"
    stopped(monkeypatch, out, "--resume")
    run(out, "--resume")
    assert_same(out, reference)
    run(out, "--resume")


DIFFERENT = {
    "ranks": ["-n", "5"],
    "graph and weights": ["--graph", "ring"],
    "problem": ["--problem", "huber:dim=9"],
    "algorithm": ["--algorithm", "gt-adaptive:lr=0.02"],
    "dtype": ["--dtype", "float32"],
    "seeds": ["--seed", "1"],
    "log-every": ["--log-every", "6"],
    "files": ["--x1", "x1.npy"],
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_run_is_refused_and_the_difference_named(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    np.save("x1.npy", np.ones(10))
    out = tmp_path / "run"
    stopped(monkeypatch, out)
    capsys.readouterr()
    before = (out / "run.json").read_bytes()
    run(out, "--resume", *DIFFERENT[name], expect=2)
    assert f"its {name} was" in capsys.readouterr().err
    assert (out / "run.json").read_bytes() == before


def test_a_file_that_has_changed_is_another_run(tmp_path, monkeypatch, capsys):
    np.savez(tmp_path / "d.npz", Phi=np.stack([np.eye(3)] * 4), x_star=np.ones(3))
    out = tmp_path / "run"
    stopped(monkeypatch, out, "--problem", f"huber:data={tmp_path / 'd.npz'}")
    np.savez(tmp_path / "d.npz", Phi=np.stack([np.eye(3)] * 4), x_star=np.zeros(3))
    capsys.readouterr()
    resume(out, expect=2)
    assert "its files was" in capsys.readouterr().err
    resume(out, "-n", "5", expect=2)
    assert "has 4 ranks, not 5" in capsys.readouterr().err


def test_nothing_to_resume(tmp_path, capsys):
    resume(tmp_path / "absent", expect=2)
    assert "holds no run" in capsys.readouterr().err
    assert not (tmp_path / "absent").exists()
    assert main([*WORDS, "--resume"]) == 2
    with pytest.raises(UserError, match="needs a run directory"):
        mpi_gt.run(stacked=True, n=3, checkpoint_every=5)


def test_a_stopped_profile_goes_on_without_one_and_measures_as_often(tmp_path):
    config = RunConfig.of({"profile": True, "n": 4, "out": str(tmp_path)})
    facts = {"config": asdict(config), "status": "stopped"}
    (tmp_path / "run.json").write_text(json.dumps(facts))
    going = config_of_run(tmp_path, {}, None)
    assert not going.profile
    assert going.log_every == config.log_interval == 100


def test_another_blas_kernel_is_a_warning(monkeypatch, tmp_path, capsys):
    out = tmp_path / "run"
    stopped(monkeypatch, out)
    assert read_facts(out)["blas"] == machine.blas_facts()
    before = {**read_facts(out), "blas": {"name": "x", "version": "1", "kernel": "Prescott"}}
    (out / "run.json").write_text(json.dumps(before))
    capsys.readouterr()
    resume(out)
    assert capsys.readouterr().err.count("began with the BLAS x 1 Prescott") == 1
    assert any("BLAS" in warning for warning in read_facts(out)["warnings"])
    run(tmp_path / "reference")
    assert_same(out, tmp_path / "reference")
