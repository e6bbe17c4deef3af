"""Sweeps over a grid on real ranks: one launch per number of ranks, stopped, killed, continued."""

import csv
import os
import signal

import pytest
from resuming import assert_same
from support import facts, finish, ranks_of, start, wait_for

import mpi_gt

SIZE = ["--algorithms", "gt,dsgd", "--iterations", "30", "--seeds", "2", "--no-figures"]


def table(out):
    with (out / "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_launch_per_number_of_ranks(mpi, call, tmp_path):
    out = tmp_path / "grid"
    words = [*SIZE, "--over", "n=2,3", "--over", "lr=0.01,1e300", "--out", out]
    done = call(mpi.mpi_gt("sweep", *words))
    rows = table(out)
    assert [(row["n"], row["status"]) for row in rows] == [
        (n, status) for _ in range(2) for n in "23" for status in ("finished", "diverged")
    ]
    launches = {tuple(facts(out / "points" / row["point"])["command"]) for row in rows}
    assert len(launches) == 1  # the ranks have the same words
    assert "8 points: 4 finished, 4 diverged" in done.out
    one = tmp_path / "one"
    call(mpi.mpi_gt("run", "-n", "3", "--algorithm", "dsgd:lr=0.01", "--iterations", "30",
                    "--seeds", "2", "--quiet", "--out", one))  # fmt: skip
    (point,) = (row["point"] for row in rows if row["n"] == "3" and row["method"] == "dsgd"
                and row["lr"] == "0.01")  # fmt: skip
    assert_same(out / "points" / point, one)
    assert not list(out.rglob(".launch-*")) + list(out.rglob(".lock"))


ITERATIONS = 5000  # some tenths of a second, in which a test has to kill a rank
LONG = ["--algorithms", "gt", "-n", "2", "--log-every", "10", "--no-figures", "--quiet"]


def begin(mpi, out, iterations):
    axes = ["--over", "graph=path,complete", "--over", "lr=0.01,0.02"]
    words = [*LONG, "--iterations", iterations, *axes, "--out", out]
    return mpi.mpi_gt("sweep", *words)


@pytest.fixture(scope="module")
def whole(openmpi, call, tmp_path_factory):
    """The sweep, never interrupted."""
    out = tmp_path_factory.mktemp("sweep") / "whole"
    call(begin(openmpi, out, ITERATIONS))
    return out


def rows_of(path):
    return len((path / "metrics.csv").read_text().splitlines()) if path.exists() else 0


def test_stopped_by_a_signal_and_continued(openmpi, call, tmp_path):
    out = tmp_path / "grid"
    process = start(begin(openmpi, out, 10**6))
    first = out / "points" / "0001-gt-graph-path-lr-0.01"
    wait_for(lambda: (first / "metrics.csv").exists() and rows_of(first) > 5)
    process.send_signal(signal.SIGTERM)
    done = finish(process, limit=60)
    assert done.code == 85, str(done)
    assert "to continue: mpi-gt resume" in done.err
    assert facts(out)["status"] == "stopped"
    assert facts(first)["status"] == "stopped"
    assert [row["status"] for row in table(out)] == ["stopped", "pending", "pending", "pending"]


@pytest.mark.parametrize("whom", ["front end", "rank"])
def test_killed_and_continued_to_the_bit(whom, openmpi, call, whole, tmp_path):
    out = tmp_path / "grid"
    words = begin(openmpi, out, ITERATIONS)
    process = start(words)
    second = out / "points" / "0002-gt-graph-path-lr-0.02"
    wait_for(lambda: (second / "metrics.csv").exists() and rows_of(second) > 5)
    victim = process.pid if whom == "front end" else ranks_of(out)[-1]
    os.kill(victim, signal.SIGKILL)
    done = finish(process, limit=90)
    first = facts(out / "points" / "0001-gt-graph-path-lr-0.01")
    assert first["status"] == "finished"
    if whom == "rank":  # the others are run by another launch
        assert done.code == 1, str(done)
        statuses = [row["status"] for row in table(out)]
        assert statuses == ["finished", "failed", "finished", "finished"]
    call(words)
    again = facts(out / "points" / "0001-gt-graph-path-lr-0.01")
    assert again["started"] == first["started"]
    for path in sorted(whole.glob("points/*")):
        assert_same(out / "points" / path.name, path)


def test_under_ones_own_mpirun(mpi, call, tmp_path):
    out = tmp_path / "grid"
    words = ["sweep", *SIZE, "--over", "lr=0.01,0.02", "--out", str(out)]
    call(mpi.mpirun(2, mpi.python, "-m", "mpi_gt", *words))
    assert [row["n"] for row in table(out)] == ["2"] * 4
    assert not list(out.rglob(".launch-*")) + list(out.rglob(".lock"))
    words[-3] = "n=2,3"
    done = call(mpi.mpirun(2, mpi.python, "-m", "mpi_gt", *words), expect=None)
    assert done.code != 0
    assert done.err.count("mpi-gt: error: a point has 3 nodes, but there are 2 MPI ranks") == 1


def test_python_starts_ranks(openmpi, call, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import mpi_gt\n"
        "runs = mpi_gt.sweep({'n': [2, 3], 'lr': [0.01, 0.1]}, algorithms='gt', iterations=5,\n"
        "                    out='grid', no_figures=True)\n"
        "print(*(row['status'] for row in runs.summary_rows))\n"
    )
    done = call([openmpi.python, script], cwd=tmp_path)
    assert done.out.split() == ["finished"] * 4
    assert len(mpi_gt.load(tmp_path / "grid")) == 4


def test_a_rank_that_fails_in_one_point_leaves_the_others(openmpi, call, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from mpi_gt.algorithms.gt import GradientTracking\n"
        "@dataclass(frozen=True)\n"
        "class Fragile(GradientTracking):\n"
        "    def step(self, t, state, mix, grad):\n"
        "        if t == 5 and self.lr == 0.02:\n"
        "            raise RuntimeError('broken at 0.02')\n"
        "        return super().step(t, state, mix, grad)\n"
    )
    words = ["sweep", "-n", "2", "--algorithms", "mine:Fragile", "--iterations", "10", "--quiet"]
    words += ["--over", "lr=0.02,0.03", "--no-figures", "--out", "grid"]
    done = call(openmpi.mpi_gt(*words), cwd=tmp_path, expect=1)
    rows = table(tmp_path / "grid")
    assert [row["status"] for row in rows] == ["failed", "finished"], str(done)
    assert "broken at 0.02" in rows[0]["error"]
