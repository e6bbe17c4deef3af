"""Checkpoints in one process: their files, what makes them unusable, going on, stopping, status.

The same on real ranks is in test_resume.
"""

import csv
import json
import resource
import signal
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import pytest

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.config import RunConfig
from mpi_gt.engine import resume as resume_module
from mpi_gt.errors import Stopped, UserError
from mpi_gt.rundir.checkpoint import Unusable, as_state, glance, part_path, read_part, write_part
from mpi_gt.rundir.run_json import mark_failed, mark_running, read_facts


class State(NamedTuple):
    x: Any
    s: Any


STATE = State(np.arange(6.0).reshape(2, 3), np.ones((2, 3), np.float32))
WORDS = ["run", "--stacked", "-n", "4", "--iterations", "60", "--log-every", "7", "--seeds", "2"]


def test_a_part_comes_back_to_the_bit(tmp_path):
    write_part(tmp_path / "part", {"iteration": 7}, STATE)
    part = read_part(tmp_path / "part")
    assert part.header["iteration"] == 7
    state = as_state(State(np.zeros((2, 3)), np.zeros((2, 3), np.float32)), part)
    assert isinstance(state, State)
    for before, after in zip(STATE, state, strict=True):
        assert (before.tobytes(), before.dtype) == (after.tobytes(), after.dtype)
    assert glance(tmp_path / "part")["iteration"] == 7
    assert [path.name for path in tmp_path.iterdir()] == ["part"]
    with pytest.raises(Unusable, match="its s is float32"):
        as_state(State(np.zeros((2, 3)), np.zeros((2, 3))), part)


def test_every_flipped_bit_and_every_cut_is_found(tmp_path):
    path = tmp_path / "part"
    write_part(path, {"iteration": 7}, STATE)
    content = path.read_bytes()
    for place in range(0, len(content), 5):
        for bit in (0, 6):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            with pytest.raises(Unusable):
                read_part(path)
    for length in (0, 10, 60, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(Unusable):
            read_part(path)


def test_nothing_pickled_is_written_or_read(tmp_path):
    with pytest.raises(ValueError, match="Object arrays"):
        write_part(tmp_path / "part", {}, State(np.array([{}]), np.zeros(1)))
    assert not (tmp_path / "part").exists()


def table(directory):
    with (directory / "metrics.csv").open(newline="") as file:
        return [{**row, "seconds": ""} for row in csv.DictReader(file)]


def assert_same(directory, reference):
    assert table(directory) == table(reference)
    assert (directory / "final.npz").read_bytes() == (reference / "final.npz").read_bytes()


def run(out, *words, expect=0):
    assert main([*WORDS, "--out", str(out), "--quiet", *words]) == expect


def resume(out, *words, expect=0):
    assert main(["resume", str(out), "--quiet", *words]) == expect


def stop_at(monkeypatch, iteration, label=None):
    """Have the run be asked to stop before that iteration, as a signal would."""
    from mpi_gt.engine.checkpointer import Checkpointer

    poll_stop = Checkpointer.poll_stop

    def asking(self, t):
        if t == iteration:
            self._stop.asked = True
        poll_stop(self, t)

    monkeypatch.setattr(Checkpointer, "poll_stop", asking)


def stopped(monkeypatch, out, *words, at=30):
    with monkeypatch.context() as patch:
        stop_at(patch, at)
        run(out, *words, expect=85)


def test_what_an_earlier_watchdog_said_is_gone_before_the_ranks_start(tmp_path):
    """The parent of mpirun ends it where a rank has given up: not for a report from before."""
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
    assert facts["stopped"] == {"algorithm": "gt-adaptive", "iteration": 34}  # 30 and 4 nodes
    assert not (out / "final.npz").exists()
    resume(out)
    assert_same(out, reference)
    facts = read_facts(out)
    assert facts["status"] == "finished"
    assert [each["iteration"] for each in facts["resumes"]] == [34]
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
        if calls.count(30) == 2:  # the diverged one does not come so far
            self._stop.asked = True
        poll_stop(self, t)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, "poll_stop", asking)
        assert main([*words, "--out", str(out), "--quiet"]) == 85
    assert read_facts(out)["stopped"]["algorithm"] == "dsgd:lr=0.1"
    calls.clear()
    resume(out, expect=3)
    assert_same(out, reference)
    summaries = [json.loads((path / "summary.json").read_text()) for path in (out, reference)]
    for summary in summaries:
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
    with pytest.raises(ZeroDivisionError):
        main([*words, str(tmp_path / "run")])
    assert read_facts(tmp_path / "run")["status"] == "failed"
    resume(tmp_path / "run")
    assert "there is no checkpoint: dsgd starts over" in capsys.readouterr().err
    assert_same(tmp_path / "run", tmp_path / "reference")


def damage_flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


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
    assert glance(newest)["iteration"] == 34
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


def test_metrics_that_were_changed_are_not_taken_up(tmp_path, monkeypatch, capsys, reference):
    out = tmp_path / "run"
    stopped(monkeypatch, out, "--checkpoint-every", "10")
    text = (out / "metrics.csv").read_text().splitlines(keepends=True)
    text[-1] = text[-1].replace("e-", "e-1")
    (out / "metrics.csv").write_text("".join(text))  # the row of 28: checkpoints of 30 and 34
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
    assert [each["iteration"] for each in read_facts(out)["resumes"]] == [int(first), 84]
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
    """The checkpoint is of the last iteration, whose measurement is not in what it goes on from."""
    from mpi_gt.engine.recorder import Recorder

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "end", lambda *rest: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(out, "--checkpoint-every", "20")
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


def test_overwriting_removes_what_a_run_has_left_and_nothing_else(tmp_path, monkeypatch):
    out = tmp_path / "run"
    stopped(monkeypatch, out, "--checkpoint-every", "10")
    (out / "stop").touch()
    (out / "checkpoints" / "mine").write_text("keep")
    run(out, "--overwrite")
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["mine"]
    assert not (out / "stop").exists()


def test_minutes(tmp_path):
    out = tmp_path / "run"
    run(out, "--iterations", "3000", "--checkpoint-minutes", "0.001")
    iterations = [glance(part_path(out, slot, 0))["iteration"] for slot in (0, 1)]
    assert max(iterations) == 3000
    assert 0 < min(iterations) < 3000


def test_the_stop_file_and_the_api(tmp_path, reference):
    """Without the command line there are no signals, but the file is heeded."""
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


def test_a_full_disk_is_one_clear_error_and_the_checkpoint_is_kept(tmp_path, reference):
    """A limit on the size of files stands for the disk: metrics.csv outgrows it first."""
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


def test_a_status_can_be_told_on_a_full_disk(tmp_path, monkeypatch):
    mark_running(tmp_path, {"config": {}})

    def full(*rest):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    mark_failed(tmp_path, "the disk is full", 1)
    assert read_facts(tmp_path)["status"] == "failed"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


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
    run(out, expect=1)
    assert f"cannot write {out}/metrics.csv: it was removed" in capsys.readouterr().err


def test_status_tells_the_truth(tmp_path, monkeypatch, capsys, reference):
    out = tmp_path / "run"
    stopped(monkeypatch, out)
    capsys.readouterr()
    dead = tmp_path / "dead"
    mark_running(dead, {"config": read_facts(out)["config"]})
    facts = read_facts(dead)
    facts["process"]["pid"] = 2**22 - 3  # nobody's
    (dead / "run.json").write_text(json.dumps(facts))
    assert main(["status", *map(str, (reference, out, dead))]) == 0
    shown = capsys.readouterr().out
    lines = [line for line in shown.splitlines() if "│" in line and "/60" in line]
    for line, words in zip(
        lines,
        (["finished", "60/60"], ["stopped", "28/60", "gt-adaptive 34"], ["failed"]),
        strict=True,
    ):
        for word in words:
            assert word in line, shown
    assert "gone without a word" in shown
    assert main(["status", str(tmp_path)]) == 2


def test_a_directory_in_use_is_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("mpi_gt.rundir.run_directory.PATIENCE", 0.1)
    out = tmp_path / "run"
    words = ["-m", "mpi_gt", "run", "--stacked", "-n", "3", "--iterations", "1e9", "--quiet"]
    process = subprocess.Popen([sys.executable, *words, "--out", str(out)])
    try:
        begin = time.monotonic()
        while "graph" not in read_facts(out):
            assert time.monotonic() - begin < 30
            time.sleep(0.05)
        assert main(["status", str(out)]) == 0
        assert "running" in capsys.readouterr().out
        before = (out / "run.json").read_bytes()
        resume(out, expect=2)
        assert "another run is at work" in capsys.readouterr().err
        assert (out / "run.json").read_bytes() == before
    finally:
        process.kill()
        process.wait()
    assert main(["status", str(out)]) == 0
    assert "gone without a word" in capsys.readouterr().out
