"""The state of a run in numbers, as `mpi-gt status --json` prints it, and `status --check`."""

import csv
import json
import math
import re

import numpy as np
import pytest
from resuming import run, stopped

from mpi_gt.cli.main import main
from mpi_gt.rundir.run_json import mark_running, read_facts
from mpi_gt.rundir.run_state import Points, RunState, read_state


def printed(capsys, *words):
    capsys.readouterr()
    assert main(["status", "--json", *map(str, words)]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["schema"] == 1
    return content["runs"]


def test_a_finished_run(tmp_path, capsys):
    out = tmp_path / "run"
    run(out, "--seeds", "3")
    (state,) = printed(capsys, out)
    facts = read_facts(out)
    assert set(state) == set(RunState.__dataclass_fields__)
    assert (state["status"], state["exit_code"], state["error"]) == ("finished", 0, None)
    assert (state["iteration"], state["iterations"]) == (60, 60)
    assert (state["algorithm"], state["algorithms"]) == ("gt-adaptive", ["gt-adaptive"])
    assert state["gap"] == pytest.approx(facts["final"]["gap"])  # the mean over seeds
    assert state["bytes_sent"] == facts["bytes_sent"]
    assert state["seconds"] == pytest.approx(
        60 * facts["seconds_per_iteration"], rel=0.02
    )  # it is rounded to 1e-6 s
    assert state["iterations_per_second"] > 0
    assert state["seconds_left"] is None
    assert state["points"] is None


def test_the_gap_is_the_mean_over_all_seeds_of_the_last_whole_measurement(tmp_path):
    """Of 300 seeds, and with a measurement behind it of which only some rows are written."""
    out = tmp_path / "run"
    run(out, "--seeds", "300", "--iterations", "20")
    with (out / "metrics.csv").open() as file:
        *_, gaps = np.array([float(row["gap"]) for row in csv.DictReader(file)]).reshape(-1, 300)
    assert read_state(out).gap == pytest.approx(gaps.mean(), rel=1e-12)
    lines = (out / "metrics.csv").read_text().splitlines()
    more = [re.sub(r",(\d+),20,", r",\1,21,", line, count=1) for line in lines[-300:-10]]
    (out / "metrics.csv").write_text("\n".join([*lines, *more, "gt,5,21,0.1"]))
    state = read_state(out)
    assert (state.iteration, state.gap) == (20, pytest.approx(gaps.mean(), rel=1e-12))


def test_a_stopped_run_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    stopped(monkeypatch, out)
    (state,) = printed(capsys, out)
    assert (state["status"], state["exit_code"], state["iteration"]) == ("stopped", 85, 28)
    assert state["checkpoint"] == {"algorithm": "gt-adaptive", "iteration": 31}
    assert "mpi-gt resume" in state["note"]


def test_a_running_run_has_a_rate_and_a_time_left(tmp_path, monkeypatch):
    monkeypatch.setattr("mpi_gt.rundir.status.is_held", lambda path: True)
    out = tmp_path / "run"
    run(out)
    facts = json.loads((out / "run.json").read_text())
    mark_running(out, {**facts, "config": {**facts["config"], "iterations": 120}})
    (out / "metrics.csv").write_text(
        "algorithm,seed,iteration,gap,seconds,bytes\n"
        "gt-adaptive,0,40,2,1.0,100\ngt-adaptive,1,40,2,1.0,100\n"
        "gt-adaptive,0,60,1,3.0,150\ngt-adaptive,1,60,2,3.0,150\n"
    )
    state = read_state(out)
    assert (state.status, state.iteration, state.iterations) == ("running", 60, 120)
    assert state.iterations_per_second == 10  # of the last 20 iterations
    assert state.seconds_left == 3  # at the mean pace
    assert (state.gap, state.bytes_sent) == (1.5, 300)
    assert not state.is_failed


@pytest.mark.parametrize("gap", ["nan", "inf", "", "x", "1e999"])
def test_what_is_no_finite_number_is_null(gap, tmp_path, capsys):
    out = tmp_path / "run"
    run(out)
    rows = "".join(f"gt-adaptive,{seed},60,{gap},inf,x\n" for seed in (0, 1))
    (out / "metrics.csv").write_text(f"algorithm,seed,iteration,gap,seconds,bytes\n{rows}")
    (state,) = printed(capsys, out)
    names = ("gap", "seconds", "bytes_sent", "iterations_per_second", "seconds_left")
    assert [state[name] for name in names] == [None] * 5
    assert main(["status", "--openmetrics", str(out)]) == 0
    assert math.isfinite(state["written"])


def test_check_fails_for_failed_runs_only(tmp_path, monkeypatch, capsys):
    run(tmp_path / "good")
    stopped(monkeypatch, tmp_path / "stopped")
    monkeypatch.undo()
    run(tmp_path / "diverged", "--algorithm", "gt:lr=1e308", expect=3)
    mark_running(tmp_path / "dead", {"config": read_facts(tmp_path / "good")["config"]})
    facts = read_facts(tmp_path / "dead")
    facts["process"]["pid"] = 2**22 - 3  # nobody's
    (tmp_path / "dead" / "run.json").write_text(json.dumps(facts))

    def check(*names, form=()):
        return main(["status", "--check", *form, *(str(tmp_path / name) for name in names)])

    assert check("good", "stopped") == 0
    assert check("good", "diverged") == 1
    for form in (["--json"], ["--openmetrics"], []):
        assert check("good", "dead", "stopped", form=form) == 1
    assert main(["status", str(tmp_path / "diverged"), str(tmp_path / "dead")]) == 0
    capsys.readouterr()
    assert check("good", "nowhere") == 2
    assert "holds no run" in capsys.readouterr().err


def test_a_sweep_counts_its_points(tmp_path, capsys):
    words = ["sweep", "--stacked", "-n", "3", "--iterations", "20", "--algorithms", "gt"]
    words += ["--over", "lr=0.01,1e308,0.1", "--quiet", "--no-figures", "--out", str(tmp_path)]
    assert main(words) == 0
    (state,) = printed(capsys, tmp_path)
    assert state["points"] == {"done": 3, "failed": 0, "total": 3}  # one has diverged
    assert main(["status", "--check", str(tmp_path)]) == 0
    (point,) = tmp_path.glob("points/0003*")
    facts = json.loads((point / "run.json").read_text())
    (point / "run.json").write_text(json.dumps({**facts, "status": "failed", "exit_code": 1}))
    assert read_state(tmp_path).points == Points(2, 1, 3)
    assert main(["status", "--check", str(tmp_path)]) == 1
