"""Estimates of memory, and messages in place of a MemoryError."""

import resource
import subprocess
import sys

import pytest

from mpi_gt import memory
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError

HUGE = {
    "softmax:batch=1e12": "TB",
    "softmax:rows=1e12": "TB",
    "softmax:features=1e12": "PB",
    "softmax:classes=1e12": "PB",
    "mlp:hidden=1e12": "PB",
    "mlp:features=1e12": "PB",
    "huber:dim=1e12": "EB",
    "huber:dim=1e12,phi=diagonal": "TB",
}


@pytest.mark.parametrize("problem", HUGE)
def test_a_problem_that_cannot_fit_is_refused(problem, capsys, tmp_path):
    words = ["run", "--stacked", "-n", "2", "--problem", problem, "--out", str(tmp_path / "run")]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"mpi-gt: error: problem {problem} needs ")
    assert f" {HUGE[problem]}, but this host has " in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_the_memory_of_the_host_is_shared(monkeypatch):
    monkeypatch.setattr(memory, "host_memory", lambda: 10**9)
    monkeypatch.setattr(memory, "process_memory", lambda: 10**8)
    memory.require_memory("it", 10**8, 10)
    with pytest.raises(UserError, match=r"it needs 1.1 GB in 11 processes together, but this host"):
        memory.require_memory("it", 10**8, 11)
    with pytest.raises(UserError, match=r"it needs 200 MB, but the limit of a process .*; do that"):
        memory.require_memory("it", 2 * 10**8, remedy="do that")


def test_control_groups_are_searched_upwards(monkeypatch, tmp_path):
    group = tmp_path / "job" / "step"
    group.mkdir(parents=True)
    (tmp_path / "job" / "memory.max").write_text("123456789\n")
    (group / "memory.max").write_text("max\n")
    listed = tmp_path / "cgroup"
    listed.write_text("4:cpu:/elsewhere\n0::/job/step\n")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "OWN_CGROUPS", listed)
    assert memory.cgroup_limits() == [123456789]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1600, "1.6 kB"), (10**12, "1 TB"), (10**30, "1e+12 EB")],
)
def test_sizes(size, text):
    assert memory.show_bytes(size) == text


LIMITED = {
    "predict": ["predict", "-n", "8", "--dim", "1e8", "--latency", "1us", "--bandwidth", "1GB/s"],
    "run": ["run", "--stacked", "-n", "4", "--problem", "huber:dim=1e4", "--out", "run"],
    "seeds": ["run", "--stacked", "-n", "4", "--seeds", "1e6", "--problem", "huber:dim=30"],
}


@pytest.mark.parametrize("case", LIMITED)
def test_a_limit_of_the_process(case, tmp_path):
    limit = 3 * 10**9
    done = subprocess.run(
        [sys.executable, "-m", "mpi_gt", *LIMITED[case]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert " needs " in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_memory_error_before_the_iterations_is_one_message(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(memory, "host_memory", lambda: None)
    words = ["run", "--stacked", "-n", "2", "--out", str(tmp_path / "run"), "--problem"]
    assert main([*words, "huber:dim=1e15,phi=diagonal"]) == 2
    assert "problem huber does not fit into memory: Unable to allocate" in capsys.readouterr().err
