"""`mpi-gt watch`: it looks at a run from another process and touches nothing."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import time

import pytest
from support import finish, start

import mpi_gt
from mpi_gt.cli.commands.watch import read_view, sparkline
from mpi_gt.cli.main import main
from mpi_gt.rundir.lock import claim

ELSEWHERE = {"host": "another-host", "pid": 1}


def stacked(folder, **options):
    mpi_gt.run(stacked=True, n=3, iterations=10, out=str(folder), **options)
    return folder


def tell(folder, **facts):
    told = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**told, **facts}))


def contents(folder):
    return {
        str(file): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in folder.rglob("*")
        if file.is_file()
    }


def wait_for(folder, iteration, limit=60):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if (folder / "metrics.csv").exists() and (folder / "run.json").exists():
            view = read_view(folder)
            if view.iteration >= iteration:
                return view
        time.sleep(0.1)
    pytest.fail(f"no iteration {iteration} after {limit} s")


def test_a_running_job_is_watched_to_its_end(openmpi, call, tmp_path):
    words = ["--iterations", "400", "--log-every", "10", "--seeds", "2", "--out", "run", "--quiet"]
    slow = ["--straggler", "node=1,ms=10", "--checkpoint-every", "50"]
    job = start(openmpi.mpi_gt("run", "-n", "4", *words, *slow), cwd=tmp_path)
    first = wait_for(tmp_path / "run", 60)
    assert first.status == "running"
    assert first.iterations == 400
    assert 1 < first.pace < 200  # one node sleeps ten milliseconds per iteration
    assert "at iteration" in first.checkpoint
    assert first.left.endswith("s")
    once = call(openmpi.mpi_gt("watch", "run", "--once"), cwd=tmp_path)
    assert "running" in once.out
    assert "of 400" in once.out
    live = call(openmpi.mpi_gt("watch", "run", "--every", "0.2"), cwd=tmp_path)
    lines = live.out.splitlines()
    assert lines[0].startswith("running")
    assert lines[-1].startswith("finished")
    assert len(lines) > 3
    assert finish(job).code == 0


def test_ctrl_c_ends_the_view_and_not_the_run(openmpi, tmp_path):
    words = ["--iterations", "100000", "--out", "run", "--quiet", "--straggler", "node=0,ms=5"]
    job = start(openmpi.mpi_gt("run", "-n", "2", *words), cwd=tmp_path)
    wait_for(tmp_path / "run", 1)
    view = start(openmpi.mpi_gt("watch", "run", "--every", "0.1"), cwd=tmp_path)
    assert view.stdout.readline().startswith("running")
    view.send_signal(signal.SIGINT)
    done = finish(view, 20)
    assert (done.code, done.err) == (0, "")
    assert read_view(tmp_path / "run").status == "running"
    job.send_signal(signal.SIGTERM)
    assert finish(job).code == 85
    assert read_view(tmp_path / "run").status == "stopped"


def test_on_a_terminal_it_is_drawn_in_place(openmpi, tmp_path):
    """A pseudo-terminal stands for the terminal."""
    stacked(tmp_path / "run")
    tell(tmp_path / "run", status="running")
    held = (tmp_path / "run" / "metrics.csv").open("rb")
    fcntl.flock(held, fcntl.LOCK_EX)  # as a living run does
    ours, theirs = os.openpty()
    view = subprocess.Popen(
        openmpi.mpi_gt("watch", "run", "--every", "0.1"),
        cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while shown.count(b"running") < 3:
        shown += os.read(ours, 10_000)
    tell(tmp_path / "run", status="finished")
    assert view.wait(20) == 0
    assert b"\x1b[" in shown
    os.close(ours)
    held.close()


@pytest.mark.parametrize(
    ("facts", "age", "status", "said"),
    [
        ({"status": "finished"}, 0, "finished", ""),
        ({"status": "stopped"}, 0, "stopped", "mpi-gt resume"),
        ({"status": "failed", "error": "rank 2 fell over"}, 0, "failed", "rank 2 fell over"),
        ({"status": "running", "process": {"host": socket.gethostname(), "pid": 2**22 + 1}},
         0, "failed", "ended without an error message"),
        ({"status": "running", "process": ELSEWHERE}, 60, "running", "on another-host"),
        ({"status": "running", "process": ELSEWHERE}, 3600, "stale", "60 minutes ago"),
    ],
)  # fmt: skip
def test_how_it_ended_is_told(tmp_path, capsys, monkeypatch, facts, age, status, said):
    folder = stacked(tmp_path / "run", checkpoint_every=5)
    tell(folder, **facts)
    if facts.get("process") == ELSEWHERE:
        # from another host a lock may not be seen
        monkeypatch.setattr("mpi_gt.rundir.status.is_held", lambda path: None)
    for name in ("run.json", "metrics.csv"):
        os.utime(folder / name, (time.time() - age,) * 2)
    before = contents(folder)
    view = read_view(folder)
    assert (view.status, said in view.note) == (status, True)
    assert main(["watch", str(folder), "--once"]) == 0
    assert status in capsys.readouterr().out
    assert contents(folder) == before


def test_a_slow_run_is_not_called_stale(tmp_path, monkeypatch):
    """A run that measures every half hour gives no sign of life in between."""
    folder = stacked(tmp_path / "run", log_every=5)
    table = (folder / "metrics.csv").read_text().splitlines()
    seconds = table[0].split(",").index("seconds")
    for number, line in enumerate(table[1:], 1):
        cells = line.split(",")
        cells[seconds] = str(1800 * number)
        table[number] = ",".join(cells)
    (folder / "metrics.csv").write_text("\n".join(table) + "\n")
    tell(folder, status="running", process=ELSEWHERE)
    monkeypatch.setattr("mpi_gt.rundir.status.is_held", lambda path: None)
    for name in ("run.json", "metrics.csv"):
        os.utime(folder / name, (time.time() - 3600,) * 2)
    assert read_view(folder).status == "running"


def test_a_run_without_measurements_can_be_watched(tmp_path, capsys):
    folder = stacked(tmp_path / "run")
    tell(folder, status="running", process=ELSEWHERE)
    (folder / "metrics.csv").unlink()
    assert read_view(folder).iteration == 0
    (folder / "metrics.csv").write_text("algorithm,seed,iter")
    assert main(["watch", str(folder), "--once"]) == 0


def test_the_slowest_rank_of_a_profiled_run(openmpi, call, tmp_path):
    words = ["-n", "3", "--iterations", "20", "--straggler", "node=2,ms=10", "--out", "run"]
    call(openmpi.mpi_gt("profile", *words, "--quiet"), cwd=tmp_path)
    assert read_view(tmp_path / "run").slowest.startswith("rank 2,")


def test_the_latest_of_several_runs(tmp_path):
    for name in ("a", "b"):
        stacked(tmp_path / "study" / name)
    os.utime(tmp_path / "study" / "a" / "run.json", (0, 0))
    assert read_view(tmp_path / "study").name.endswith("b")
    stacked(tmp_path / "study" / "tuning" / "round-1")  # as `reproduce --tuned` does
    assert read_view(tmp_path / "study").name.endswith("round-1")


def test_a_study_is_not_over_between_two_runs(tmp_path):
    stacked(tmp_path / "study" / "a")
    with claim(tmp_path / "study"):
        view = read_view(tmp_path / "study")
        assert (view.over, view.note) == (False, "finished; the next run follows")
    assert read_view(tmp_path / "study").over


def test_no_run_is_an_error(tmp_path, capsys):
    assert main(["watch", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
    assert main(["watch", str(tmp_path), "--every", "0"]) == 2


def test_the_small_curve():
    assert sparkline([1, 10, 100]) == "▁▅█"
    assert sparkline([-1, 0, 1]) == "▁▅█"  # no logarithm of these
    assert sparkline([1.0, float("nan"), 1.0]) == "▁▁"
    assert sparkline([1]) == sparkline([]) == ""
    falling = sparkline([0.9**k for k in range(1000)], width=60)
    assert len(falling) == 60
    assert list(falling) == sorted(falling, reverse=True)


def test_a_sweep_is_followed_by_its_latest_point(tmp_path, capsys):
    out = tmp_path / "grid"
    options = {"n": 3, "algorithms": "gt", "iterations": 10, "stacked": True, "out": str(out)}
    mpi_gt.sweep({"lr": [0.01, 0.1]}, **options)
    view = read_view(out)
    assert (view.status, view.note) == ("finished", "2 of 2 points done")
    assert (view.algorithm, view.iteration, view.iterations) == ("gt", 10, 10)
    assert view.name.startswith(str(out / "points"))
    # while the other point is still to come, that of this one does not end the view
    tell(out, status="running", process={"host": socket.gethostname(), "pid": os.getpid()})
    (last := sorted((out / "points").iterdir())[1]).rename(tmp_path / "later")
    view = read_view(out)
    assert (view.status, view.note) == ("running", "1 of 2 points done")
    assert not view.over
    (out / "points" / sorted((out / "points").iterdir())[0]).rename(last)
    (last / "run.json").unlink()
    assert main(["watch", str(out), "--once"]) == 0
    assert "0 of 2 points done" in capsys.readouterr().out
