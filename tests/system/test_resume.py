"""Stopping, killing and resuming real ranks: to the bit what an uninterrupted run gives."""

import contextlib
import os
import re
import signal
import subprocess
import time

import pytest
from resuming import assert_same, damage_flip
from support import facts, finish, ranks_of, skip_without_root, start, wait_for

from mpi_gt.cli.main import main
from mpi_gt.rundir.checkpoint import glance, part_path
from mpi_gt.rundir.checkpoint_files import latest, saved_iteration, slot_folder

SIZE = ["-n", "3", "--seeds", "2", "--quiet", "--graph", "path"]


def far(out, iterations):
    """Return whether a run that measures every 10 iterations has come this far."""
    rows = out / "metrics.csv"
    return rows.exists() and len(rows.read_text().splitlines()) > iterations // 10 * 2


def begin(mpi, out, *words, iterations=4000, until=60, command="run"):
    words = [command, *SIZE, "--iterations", iterations, "--log-every", 10, *words, "--out", out]
    process = start(mpi.mpi_gt(*words))
    wait_for(lambda: far(out, until))
    return process


def references(mpi, call, tmp_path, *words, iterations, command="run"):
    out = tmp_path / "reference"
    call(mpi.mpi_gt(command, *SIZE, "--iterations", iterations, "--log-every", 10, *words,
                    "--out", out))  # fmt: skip
    return out


def resume_until(mpi, call, out, *words, iterations):
    return call(mpi.mpi_gt("resume", out, "--iterations", iterations, "--quiet", *words))


def test_stopped_by_a_signal_and_resumed_with_another_exchange(mpi, call, tmp_path):
    out = tmp_path / "run"
    process = begin(mpi, out, iterations=10**7)
    process.send_signal(signal.SIGTERM)
    done = finish(process, limit=30)
    assert done.code == 85, str(done)
    at = facts(out)["stopped"]["iteration"]
    positions = {
        (glance(part_path(out, 0, node))["iteration"], glance(part_path(out, 0, node))["node"])
        for node in range(3)
    }
    assert positions == {(at, node) for node in range(3)}
    resume_until(mpi, call, out, "--exchange", "p2p", iterations=at + 100)
    reference = references(mpi, call, tmp_path, iterations=at + 100)
    assert_same(out, reference)
    assert facts(out)["resumes"][0]["exchange"] == "p2p"


@pytest.mark.parametrize("layout", ["rank", "host"])
def test_a_stop_waits_for_what_is_staged(openmpi, layout, call, tmp_path):
    out, scratch = tmp_path / "run", tmp_path / "scratch"
    scratch.mkdir()
    words = ["--checkpoint-every", "30", "--checkpoint-layout", layout]
    words += ["--checkpoint-staging", str(scratch)]
    process = begin(openmpi, out, *words, iterations=10**7)
    process.send_signal(signal.SIGTERM)
    done = finish(process, limit=30)
    assert done.code == 85, str(done)
    at = facts(out)["stopped"]["iteration"]
    assert latest(out)["iteration"] == saved_iteration(out) == at
    assert not list(scratch.iterdir())
    for slot in (0, 1):
        assert len(list(slot_folder(out, slot).iterdir())) == (3 if layout == "rank" else 1)
    scratch.rmdir()
    done = call(openmpi.mpi_gt("resume", out, "--iterations", at + 40, "--quiet"), expect=2)
    assert done.err.count(f"checkpoint-staging: '{scratch}'") == 1, str(done)
    resume_until(openmpi, call, out, "--checkpoint-staging", tmp_path, iterations=at + 40)
    assert facts(out)["resumes"][-1]["iteration"] == at
    assert_same(out, references(openmpi, call, tmp_path, iterations=at + 40))


@pytest.mark.parametrize("way", ["USR1 to mpirun", "TERM to one rank", "USR1 to all", "file"])
def test_every_way_to_ask(openmpi, way, tmp_path):
    """The ranks run under a bare mpirun."""
    require_stop(openmpi, way, tmp_path / "run")


def test_mpich_hands_the_signal_on(mpich, tmp_path):
    require_stop(mpich, "USR1 to mpirun", tmp_path / "run")


def require_stop(mpi, way, out):
    words = ["run", *SIZE, "--iterations", "10000000", "--log-every", "10", "--out", str(out)]
    process = start(mpi.mpirun(3, mpi.python, "-m", "mpi_gt", *words))
    wait_for(lambda: far(out, 60))
    if way == "USR1 to mpirun":
        process.send_signal(signal.SIGUSR1)
    elif way == "file":
        (out / "stop").touch()
    else:
        for pid in ranks_of(out)[-1:] if way == "TERM to one rank" else ranks_of(out):
            os.kill(pid, signal.SIGUSR1 if way == "USR1 to all" else signal.SIGTERM)
    done = finish(process, limit=30)
    assert done.code == 85, str(done)
    assert facts(out)["status"] == "stopped"
    assert done.err.count("stopped after iteration") == 1, str(done)


KILLED = {
    "gt": ["--algorithm", "gt:order=atc", "--exchange", "persistent"],
    "d-amsgrad": ["--algorithm", "d-amsgrad", "--exchange", "rma", "--dtype", "float32"],
    "softmax": ["--algorithm", "gtadam", "--exchange", "persistent-p2p", "--problem",
                "softmax:rows=64,features=3"],
    "channel": ["--channel", "links=0.2,loss=0.1,burst=40,noise=1e-3,inactive=0.1"],
    "host": ["--checkpoint-layout", "host", "--checkpoint-staging", "SCRATCH"],
    "staged": ["--checkpoint-staging", "SCRATCH"],
    "mlp": ["--algorithm", "gt-adaptive-vr:period=7", "--problem", "mlp:rows=64,hidden=5"],
}  # fmt: skip


@pytest.mark.parametrize("case", ["gt", "d-amsgrad", "host", "staged", "mlp"])
def test_killed_and_resumed(openmpi, case, call, tmp_path):
    require_same_after_kill(openmpi, openmpi, case, call, tmp_path)


def test_killed_on_one_mpi_and_resumed_on_another(openmpi, mpi, call, tmp_path):
    require_same_after_kill(openmpi, mpi, "softmax", call, tmp_path)


def test_killed_over_a_channel_and_resumed_on_another_mpi(openmpi, mpich, call, tmp_path):
    """Bursts and noise are those of the iteration, wherever a run begins again."""
    require_same_after_kill(openmpi, mpich, "channel", call, tmp_path)


def require_same_after_kill(openmpi, mpi, case, call, tmp_path):
    """Kill a rank or mpirun by SIGKILL and resume under a bare mpirun of Open MPI."""
    out, scratch = tmp_path / "run", tmp_path / "scratch"
    scratch.mkdir()
    words = [str(scratch) if word == "SCRATCH" else word for word in KILLED[case]]
    words += ["--checkpoint-every", "20"]
    process = begin(mpi, out, *words, iterations=10**7)
    (rank, *_) = ranks_of(out)
    parent = process.pid if case == "gt" else rank
    begun = time.monotonic()
    os.kill(parent, signal.SIGKILL)
    done = finish(process, limit=30)
    if parent == rank:
        assert time.monotonic() - begun < 10
        assert done.code == 1, str(done)
        assert facts(out)["status"] == "failed"
        assert f"mpi-gt resume {out}" in done.err
    wait_for(lambda: not ranks_of(out), limit=15)
    at = latest(out)["iteration"] + 50
    words = ["resume", str(out), "--iterations", str(at), "--quiet"]
    call(openmpi.mpirun(3, openmpi.python, "-m", "mpi_gt", *words))
    assert facts(out)["resumes"][0]["iteration"] >= at - 70
    assert not list(scratch.iterdir())
    reference = [word for word in KILLED[case] if "host" != word != "SCRATCH"]
    plain = [word for word in reference if not word.startswith("--checkpoint")]
    assert_same(out, references(openmpi, call, tmp_path, *plain, iterations=at))


def test_other_exchanges_stop_and_go_on(openmpi, call, tmp_path):
    """The run is stopped with each exchange and resumed with the next; other tests have others."""
    exchanges = ["neighbor", "nonblocking", "shared", "rma", "pickle"]
    out = tmp_path / "run"
    at = 0
    for index, exchange in enumerate(exchanges):
        words = ["--exchange", exchange]
        if index == 0:
            process = begin(openmpi, out, *words, iterations=10**6, until=20)
        else:
            process = start(openmpi.mpi_gt("resume", out, "--quiet", *words))
            wait_for(lambda at=at: far(out, at + 40))
        process.send_signal(signal.SIGINT)
        done = finish(process, limit=30)
        assert done.code == 85, str(done)
        at = facts(out)["stopped"]["iteration"]
    resume_until(openmpi, call, out, iterations=at + 5)
    assert_same(out, references(openmpi, call, tmp_path, iterations=at + 5))
    assert [each["exchange"] for each in facts(out)["resumes"]] == [*exchanges[1:], "pickle"]


def test_a_comparison_is_taken_up(openmpi, call, tmp_path):
    words = ["--algorithms", "gt,dsgd,d-adabound", "--checkpoint-every", "50"]
    out = tmp_path / "run"
    process = begin(openmpi, out, *words, iterations=800, until=850, command="compare")
    os.kill(ranks_of(out)[-1], signal.SIGKILL)
    finish(process, limit=30)
    done = call(openmpi.mpi_gt("resume", out, "--quiet"))
    assert done.out == ""
    taken_up = facts(out)["resumes"][0]
    assert taken_up["algorithm"] == "dsgd"
    reference = references(openmpi, call, tmp_path, *words, iterations=800, command="compare")
    assert_same(out, reference)


def test_a_damaged_part_of_one_rank(openmpi, call, tmp_path):
    out = tmp_path / "run"
    call(openmpi.mpi_gt("run", *SIZE, "--iterations", "90", "--log-every", "10", "--out", out,
                        "--checkpoint-every", "40"))  # fmt: skip
    newest = max((0, 1), key=lambda slot: glance(part_path(out, slot, 2))["iteration"])
    damage_flip(part_path(out, newest, 2))
    done = resume_until(openmpi, call, out, iterations=120)
    assert done.err.count("node-00002 is damaged") == 1, str(done)
    assert facts(out)["resumes"][0]["iteration"] == 80
    assert_same(out, references(openmpi, call, tmp_path, iterations=120))


def test_refused_on_other_ranks(openmpi, call, tmp_path):
    out = tmp_path / "run"
    call(
        openmpi.mpi_gt("run", *SIZE, "--iterations", "20", "--checkpoint-every", "10", "--out", out)
    )
    more = ["resume", str(out), "--iterations", "40"]
    for words in (
        openmpi.mpi_gt(*more, "-n", "2"),
        openmpi.mpirun(2, openmpi.python, "-m", "mpi_gt", *more),
    ):
        done = call(words, expect=2, limit=60)
        assert done.err.count("has 3 ranks, not 2") == 1, str(done)
    words = ["run", *SIZE, "--iterations", "40", "--resume", "--out", out, "--graph", "complete"]
    done = call(openmpi.mpi_gt(*words), expect=2)
    assert done.err.count("its graph and weights was") == 1, str(done)
    assert facts(out)["status"] == "finished"
    done = call(openmpi.mpirun(3, openmpi.python, "-m", "mpi_gt", "resume", str(out)))
    assert done.out.count("is finished") == 1


def test_a_disk_that_is_full(mpi, call, tmp_path):
    require_message_when_full(mpi, call, tmp_path)


def test_a_disk_that_is_full_when_a_host_is_saved(openmpi, call, tmp_path):
    """Only the first rank of a host writes; the others wait for it until they are ended."""
    require_message_when_full(openmpi, call, tmp_path, "--checkpoint-layout", "host")


def test_a_disk_that_is_full_when_a_staged_file_is_copied(openmpi, call, tmp_path):
    """It is a thread that notices."""
    words = ["--checkpoint-layout", "host", "--checkpoint-staging", str(tmp_path)]
    require_message_when_full(openmpi, call, tmp_path, *words)
    assert not list(tmp_path.glob(".mpi-gt-*"))


def require_message_when_full(mpi, call, tmp_path, *options):
    """Run on a small file system, if the test may mount one, fill it, and resume."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        skip_without_root("it mounts a small file system")
    out = disk / "run"
    try:
        words = [
            *SIZE,
            "--log-every",
            "10",
            "--checkpoint-every",
            "50",
            "--problem",
            "huber:dim=99",
            *options,
        ]
        process = start(mpi.mpi_gt("run", *words, "--iterations", "100000000", "--out", out))
        wait_for(lambda: latest(out).get("iteration", 0) > 150)
        with contextlib.suppress(OSError):  # the run writes as well
            (disk / "filler").write_bytes(bytes(free_bytes(disk)))
        done = finish(process, limit=30)
        assert done.code == 1, str(done)
        assert f"cannot write {out}" in done.err, str(done)
        told = [
            line for line in done.err.splitlines() if "iteration" not in line or "error" in line
        ]
        assert len(told) == 1, str(done)
        assert "No space left on device" in told[0]
        assert re.search(
            r"kept in .*: metrics.csv up to .*, the checkpoint of iteration \d+", told[0]
        )
        assert facts(out)["status"] == "failed"
        (disk / "filler").unlink()
        at = latest(out)["iteration"] + 20
        resume_until(mpi, call, out, iterations=at)
        assert facts(out)["resumes"][0]["iteration"] >= at - 70
        assert_same(out, references(mpi, call, tmp_path, *words[len(SIZE) :], iterations=at))
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def free_bytes(disk):
    facts = os.statvfs(disk)
    return facts.f_bavail * facts.f_frsize


def test_status_of_a_run_under_a_bare_mpirun_that_was_killed(openmpi, tmp_path, capsys):
    out = tmp_path / "run"
    words = ["run", *SIZE, "--iterations", "10000000", "--log-every", "10", "--out", str(out)]
    process = start(openmpi.mpirun(3, openmpi.python, "-m", "mpi_gt", *words))
    wait_for(lambda: far(out, 60))
    assert main(["status", str(out)]) == 0
    assert "running" in capsys.readouterr().out
    process.kill()
    finish(process)

    def told():
        assert main(["status", str(out)]) == 0
        return "ended without an error message" in capsys.readouterr().out

    wait_for(told, limit=15)
    assert facts(out)["status"] == "running"  # no process was left to write it
