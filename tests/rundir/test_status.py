"""`mpi-gt status`: of runs that are finished, stopped, running or gone."""

import contextlib
import json
import os
import subprocess
import sys
import time

from resuming import resume, run, stopped

from mpi_gt.cli.main import main
from mpi_gt.rundir.lock import claim
from mpi_gt.rundir.run_json import mark_running, read_facts


def test_status_tells_the_truth(tmp_path, monkeypatch, capsys):
    out, reference = tmp_path / "run", tmp_path / "reference"
    run(reference)
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
        (["finished", "60/60"], ["stopped", "28/60", "Algorithm 1", "31 "], ["failed"]),
        strict=True,
    ):
        for word in words:
            assert word in line, shown
    assert "ended without an error message" in shown
    assert f"to continue: mpi-gt resume {out}" in shown
    assert f"resume {dead}" not in shown  # it has saved nothing
    assert (read_facts(dead)["status"], read_facts(dead)["exit_code"]) == ("failed", 1)
    assert read_facts(dead)["error"] == "its processes ended without an error message"
    assert main(["status", str(tmp_path)]) == 2


def test_only_the_failure_of_a_process_that_is_gone_is_recorded(tmp_path, monkeypatch, capsys):
    run(tmp_path / "reference")
    config = read_facts(tmp_path / "reference")["config"]
    for name, process in {
        "alive": {"host": os.uname().nodename, "pid": os.getpid()},
        "elsewhere": {"host": "another", "pid": 2**22 - 3},
        "claimed": {"host": os.uname().nodename, "pid": 2**22 - 3},
    }.items():
        mark_running(tmp_path / name, {"config": config})
        facts = {**read_facts(tmp_path / name), "process": process}
        (tmp_path / name / "run.json").write_text(json.dumps(facts))
        with claim(tmp_path / "claimed") if name == "claimed" else contextlib.nullcontext():
            assert main(["status", str(tmp_path / name)]) == 0
        assert read_facts(tmp_path / name)["status"] == "running", name


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
        assert "is in use by" in capsys.readouterr().err
        assert (out / "run.json").read_bytes() == before
    finally:
        process.kill()
        process.wait()
    assert main(["status", str(out)]) == 0
    assert "ended without an error message" in capsys.readouterr().out
