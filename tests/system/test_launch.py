"""The real commands under the real mpirun, and what they leave behind."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from support import FIGURES, ROOT_OF_REPOSITORY, find_mpi, finish, skip_or_fail, start

SHIM = Path(__file__).parent / "count_collectives.c"


def output(directory):
    with np.load(directory / "final.npz") as file:
        return file["x"]


def facts(directory):
    return json.loads((directory / "run.json").read_text())


def test_mpi_equals_stacked_and_the_exchanges_agree_to_the_bit(mpi, call, tmp_path):
    """Fewer ranks, and all exchanges: tests/ranks."""
    options = ["-n", "16", "--iterations", "60", "--seeds", "3", "--quiet", "--out"]
    call(mpi.mpi_gt("run", "--stacked", *options, tmp_path / "stacked"))
    for exchange in ("neighbor", "persistent"):
        done = call(mpi.mpi_gt("run", "--exchange", exchange, *options, tmp_path / exchange))
        assert (done.out, done.err) == ("", "")
    difference = output(tmp_path / "neighbor") - output(tmp_path / "stacked")
    assert np.abs(difference).max() <= 1e-12
    assert (tmp_path / "neighbor" / "final.npz").read_bytes() == (
        tmp_path / "persistent" / "final.npz"
    ).read_bytes()


def test_all_ways_to_launch_give_the_same_numbers(mpi, call, tmp_path):
    options = ["--iterations", "50", "--quiet", "--out"]
    ways = {
        "command": mpi.mpirun(4, str(mpi.bin / "mpi-gt"), "run"),
        "module": mpi.mpirun(4, mpi.python, "-m", "mpi_gt", "run"),
        "child": mpi.mpi_gt("run", "-n", "4"),
        "both": mpi.mpirun(4, str(mpi.bin / "mpi-gt"), "run", "-n", "4"),
    }
    for name, words in ways.items():
        call([*words, *options, tmp_path / name])
    assert len({(tmp_path / name / "final.npz").read_bytes() for name in ways}) == 1
    run = facts(tmp_path / "command")
    assert {"openmpi": "Open MPI", "mpich": "MPICH"}[mpi.name] in run["mpi"]["library"]
    assert run["mpi"]["thread_level"] == "funneled"
    assert len(run["hosts"]) == 4


def test_the_main_job(openmpi, call, tmp_path):
    """What the README promises: from a gap near 0.4 to below 1e-3, on 16 ranks."""
    out = tmp_path / "run"
    words = ["run", "-n", "16", "--problem", "huber", "--graph", "er:p=0.7"]
    words += ["--iterations", "2000", "--seeds", "5", "--out", out]
    done = call(openmpi.mpi_gt(*words), env=FIGURES)
    assert "gap" in done.out
    assert str(out / "gap.png") in done.out
    assert "iteration 2000/2000" in done.err
    rows = [line.split(",") for line in (out / "metrics.csv").read_text().splitlines()]
    gap, tracking = rows[0].index("gap"), rows[0].index("tracking")
    first, last = rows[1:6], rows[-5:]
    assert 0.2 < np.mean([float(row[gap]) for row in first]) < 0.8
    assert np.mean([float(row[gap]) for row in last]) < 1e-3
    assert max(float(row[tracking]) for row in rows[1:]) < 1e-12
    run = facts(out)
    assert run["status"] == "finished"
    assert len(run["hosts"]) == 16
    if run["ranks_per_core"] > 1:
        assert any("cores" in warning for warning in run["warnings"])


@pytest.mark.parametrize("exchange", ["neighbor", "persistent"])
def test_the_library_is_called_once_an_iteration_on_every_rank(
    mpi, exchange, call, compiler, tmp_path
):
    """Counted through MPI's profiling interface, beneath mpi4py."""
    shim = tmp_path / "shim.so"
    call([mpi.bin / "mpicc", "-shared", "-fPIC", "-o", shim, SHIM])
    done = call(
        mpi.mpi_gt("run", "-n", "5", "--iterations", "123", "--exchange", exchange, "--out",
                   tmp_path / "run", "--quiet"),
        env={"LD_PRELOAD": str(shim)},
    )  # fmt: skip
    counts = [line.split()[1:] for line in done.err.splitlines() if line.startswith("collectives")]
    expected = {"neighbor": ["123", "0"], "persistent": ["0", "123"]}[exchange]
    assert sorted(counts) == [[str(rank), *expected] for rank in range(5)], str(done)


BAD = {
    "name": (["--algorithm", "gt-adaptve"], "did you mean 'gt-adaptive'"),
    "domain": (["--algorithm", "gt-adaptive:beta2=1"], "beta2"),
    "graph": (["--graph", "er:p=0"], "p must be"),
    "edges": (["--graph", "edges.txt"], "3 nodes, but there are 4"),
    "apart": (["--graph", "apart.txt"], "not connected"),
    "malformed": (["--graph", "malformed.txt"], "line 2"),
    "data": (["--problem", "huber:data=data.npz"], "not finite"),
    "taken": (["--out", "taken"], "exists"),
    "unwritable": (["--out", "edges.txt/run"], "edges.txt"),
    "option": (["--iteratons", "5"], "did you mean '--iterations'"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("way", ["mpirun", "child"])
def test_bad_input_is_one_message_and_exit_code_two(openmpi, way, case, call, tmp_path):
    require_one_message(openmpi, way, case, call, tmp_path)


@pytest.mark.parametrize("way", ["mpirun", "child"])
def test_bad_input_with_mpich(mpich, way, call, tmp_path):
    require_one_message(mpich, way, "data", call, tmp_path)


def require_one_message(mpi, way, case, call, tmp_path):
    words, message = BAD[case]
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n")
    (tmp_path / "apart.txt").write_text("0 1\n2 3\n")
    (tmp_path / "malformed.txt").write_text("0 1\n1 two\n")
    (tmp_path / "taken").mkdir()
    np.savez(tmp_path / "data.npz", Phi=np.full((4, 2, 2), np.nan), x_star=np.zeros(2))
    launcher = mpi.mpirun(4, str(mpi.bin / "mpi-gt"), "run")
    if way == "child":
        launcher = mpi.mpi_gt("run", "-n", "4")
    done = call([*launcher, "--iterations", "5", *words], cwd=tmp_path, expect=2, limit=60)
    assert done.err.count("mpi-gt: error:") == 1, str(done)
    assert message in done.err, str(done)
    assert "Traceback" not in done.err
    assert not (tmp_path / "runs").exists()


def test_another_number_of_ranks_than_asked_for(mpi, call, tmp_path):
    words = mpi.mpirun(2, str(mpi.bin / "mpi-gt"), "run", "-n", "16")
    done = call(words, cwd=tmp_path, expect=2, limit=60)
    assert done.err.count("-n 16 was asked for, but there are 2 MPI ranks") == 1


def test_one_brand_s_mpirun_with_another_s_mpi4py(mpi, call, tmp_path):
    """Every rank would be a world of one, or abort: it is found out before."""
    other = find_mpi("mpich" if mpi.name == "openmpi" else "openmpi")
    assert other is not None
    for command in ("run", "doctor"):
        words = mpi.mpirun(3, str(other.bin / "mpi-gt"), command)
        done = call(words, cwd=tmp_path, expect=2, limit=60)
        text = done.out if command == "doctor" else done.err
        assert text.count("started 3 processes, but every process is a world of its own") == 1
        assert "another MPI" in text
    assert not (tmp_path / "runs").exists()


def test_doctor(mpi, call):
    done = call(mpi.mpirun(4, str(mpi.bin / "mpi-gt"), "doctor"), env={"OMP_NUM_THREADS": "3"})
    assert {"openmpi": "Open MPI", "mpich": "MPICH"}[mpi.name] in done.out
    assert "4 on 1 host" in done.out
    assert done.out.count(" us\n") == 2, str(done)
    assert done.out.count("BLAS may start 3 threads") == 1
    alone = call(mpi.mpi_gt("doctor"), env={"OMP_NUM_THREADS": "1"})
    assert "nothing is wrong" in alone.out, str(alone)
    assert str(mpi.bin / "mpirun") in alone.out
    assert "4 on 1 host" in call(mpi.mpi_gt("doctor", "-n", "4")).out


def test_a_host_list_of_one_host(mpi, call, tmp_path):
    (tmp_path / "lines").write_text("localhost\n" * 3)  # as $PBS_NODEFILE has it
    options = ["--iterations", "20", "--quiet", "--out"]
    files = {"a": ROOT_OF_REPOSITORY / "hostfiles" / f"{mpi.name}-one-machine", "b": "lines"}
    for name, file in files.items():
        words = ["run", "-n", "3", "--hostfile", file, *options, name]
        call(mpi.mpi_gt(*words), cwd=tmp_path)
    call(mpi.mpi_gt("run", "-n", "3", *options, "c"), cwd=tmp_path)
    assert len({(tmp_path / name / "final.npz").read_bytes() for name in "abc"}) == 1
    words = ["run", "--hostfile", "lines", "--iterations", "5"]
    done = call(mpi.mpirun(2, str(mpi.bin / "mpi-gt"), *words), cwd=tmp_path, expect=2)
    assert done.err.count("--hostfile goes with -n") == 1


def test_warnings_are_kept(openmpi, call, tmp_path):
    words = ["run", "-n", "2", "--iterations", "5", "--out", "run"]
    env = {"OMP_NUM_THREADS": "2", "MPI_GT_HOSTS": "4"}
    done = call(openmpi.mpi_gt(*words), cwd=tmp_path, env=env)
    for text in ("BLAS may start 2 threads", "all 2 ranks are on"):
        assert done.err.count(text) == 1, str(done)
        assert sum(text in warning for warning in facts(tmp_path / "run")["warnings"]) == 1


def test_divergence(mpi, call, tmp_path):
    out = tmp_path / "run"
    words = ["run", "--algorithm", "gt-adaptive:lr=1e308", "--out", out, "--quiet"]
    done = call(mpi.mpi_gt(*words, "-n", "4"), expect=3)
    assert done.err.count("node") == 1
    assert "after iteration 10" in done.err
    assert facts(out)["status"] == "failed"
    assert len((out / "metrics.csv").read_text().splitlines()) == 2
    call(mpi.mpirun(4, str(mpi.bin / "mpi-gt"), *words, "--overwrite"), expect=3)


FAILING = """
import sys
import mpi_gt.algorithms.gt_adaptive as module
from mpi4py import MPI
step = module.GTAdaptive.step

def failing(self, t, *rest):
    if t == 30 and MPI.COMM_WORLD.rank == 2:
        raise ZeroDivisionError("a bug in the algorithm")
    return step(self, t, *rest)

module.GTAdaptive.step = failing
from mpi_gt.cli import main
sys.exit(main())
"""


def test_an_exception_on_one_rank_ends_all_and_names_it(mpi, call, tmp_path):
    out = tmp_path / "run"
    words = mpi.mpirun(4, mpi.python, "-c", FAILING, "run", "--out", out, "--quiet")
    begin = time.monotonic()
    done = call(words, expect=None, limit=30)
    assert time.monotonic() - begin < 15
    assert done.code != 0
    assert done.err.count("mpi-gt: error on rank 2:") == 1, str(done)
    assert done.err.count("ZeroDivisionError: a bug in the algorithm") == 1
    assert facts(out)["status"] == "failed"
    assert "rank 2" in facts(out)["error"]


def wait_for(condition, limit=60):
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < limit, "it never came"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_the_run_and_the_status_tells_the_truth(mpi, number, tmp_path):
    out = tmp_path / "run"
    words = mpi.mpi_gt("run", "-n", "4", "--iterations", "10000000", "--out", out, "--quiet",
                       "--log-every", "50")  # fmt: skip
    process = start(words)
    rows = out / "metrics.csv"
    wait_for(lambda: rows.exists() and len(rows.read_text().splitlines()) > 2)
    process.send_signal(number)
    done = finish(process, limit=30)
    assert done.code == 85, str(done)
    assert done.err.count("mpi-gt") == 2, str(done)  # the command, and in it the one to go on
    assert f"mpi-gt resume {out}" in done.err
    assert facts(out)["status"] == "stopped"
    assert len(rows.read_text().splitlines()) > 2


def test_a_second_interrupt_ends_at_once(openmpi, tmp_path):
    """Also where a rank cannot obey: here, because it is suspended."""
    out = tmp_path / "run"
    words = openmpi.mpi_gt("run", "-n", "3", "--iterations", "10000000", "--out", out, "--quiet",
                           "--log-every", "50")  # fmt: skip
    process = start(words)
    rows = out / "metrics.csv"
    wait_for(lambda: rows.exists() and len(rows.read_text().splitlines()) > 2)
    stuck = ranks_of(out)[-1]
    os.kill(stuck, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    done = finish(process, limit=15)
    # the end of mpirun may wake the suspended rank, and then all of them just stop in time
    assert done.code in (130, 85), str(done)
    assert facts(out)["status"] in ("failed", "stopped")
    with contextlib.suppress(ProcessLookupError):
        os.kill(stuck, signal.SIGKILL)


def test_an_interrupt_before_the_ranks_are_up(openmpi, tmp_path):
    out = tmp_path / "run"
    process = start(openmpi.mpi_gt("run", "-n", "3", "--iterations", "1000000", "--out", out))
    wait_for(lambda: (out / "run.json").exists())
    assert facts(out)["status"] == "running"  # before the first rank
    process.send_signal(signal.SIGINT)
    done = finish(process, limit=15)
    assert done.code in (130, 85), str(done)
    assert facts(out)["status"] == ("failed" if done.code == 130 else "stopped")


def ranks_of(out):
    """The process ids of the ranks that write to `out`: Python itself, not its launchers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended since
            words = path.read_bytes().split(b"\0")
            if words[1:3] == [b"-m", b"mpi_gt"] and str(out).encode() in words:
                found.append(int(path.parent.name))
    return found


def test_a_killed_rank_ends_the_launch(mpi, tmp_path):
    out = tmp_path / "run"
    words = ["run", "-n", "4", "--iterations", "10000000", "--out", out, "--quiet"]
    process = start(mpi.mpi_gt(*words, "--log-every", "50"))
    rows = out / "metrics.csv"
    wait_for(lambda: rows.exists() and len(rows.read_text().splitlines()) > 2)
    os.kill(ranks_of(out)[0], signal.SIGKILL)
    done = finish(process, limit=15)
    assert done.code not in (0, 2, 3), str(done)
    assert facts(out)["status"] == "failed"


def test_killing_the_parent_ends_the_run(mpi, tmp_path):
    out = tmp_path / "run"
    words = ["run", "-n", "3", "--iterations", "10000000", "--out", out, "--quiet"]
    process = start(mpi.mpi_gt(*words, "--log-every", "50"))
    rows = out / "metrics.csv"
    wait_for(lambda: rows.exists() and len(rows.read_text().splitlines()) > 2)
    assert len(ranks_of(out)) == 3
    process.kill()
    wait_for(lambda: not ranks_of(out), limit=15)
    finish(process)


def test_what_a_killed_mpirun_left_is_in_nobody_s_way(openmpi, call, tmp_path):
    """Under a process number that it has had: in a new namespace these begin at 1."""
    spaces = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*spaces, "true"], capture_output=True, check=False).returncode:
        skip_or_fail("this user makes no process namespaces")
    left = {tmp_path / f"ompi.{pid}" for pid in range(1, 100)}
    for folder in left:
        folder.mkdir()
        for name in ("", folder.suffix):
            (folder / f"pmix.{socket.gethostname()}.tool{name}").touch()
    words = ["run", "-n", "2", "--iterations", "3", "--quiet", "--out", tmp_path / "run"]
    call([*spaces, *openmpi.mpi_gt(*words)], env={"TMPDIR": str(tmp_path)})
    assert set(tmp_path.glob("ompi.*")) == left  # another's, for all we know


def test_what_is_ignored_stays_ignored(openmpi, tmp_path):
    """nohup has the hang-up signal ignored."""
    out = tmp_path / "run"
    words = ["run", "-n", "2", "--iterations", "1000", "--out", out, "--quiet"]
    process = start(["nohup", *openmpi.mpi_gt(*words)])
    wait_for(lambda: (out / "run.json").exists())
    process.send_signal(signal.SIGHUP)
    assert finish(process).code == 0


def test_only_root_needs_the_files(mpi, call, tmp_path):
    """A folder that the other hosts do not have: here, ranks in another working directory."""
    (tmp_path / "edges.txt").write_text("0 1\n")
    np.save(tmp_path / "x1.npy", np.zeros(10))
    (tmp_path / "elsewhere").mkdir()
    words = [mpi.python, "-m", "mpi_gt", "run", "--graph", "edges.txt", "--x1", "x1.npy"]
    words += ["--iterations", "3", "--quiet", "--out", "run"]
    launcher = mpi.mpirun(1)
    done = call(
        [*launcher, *words, ":", "-n", "1", "-wdir", tmp_path / "elsewhere", *words],
        cwd=tmp_path,
        limit=60,
    )
    assert (done.out, done.err) == ("", "")
    assert output(tmp_path / "run").shape == (2, 1, 10)


def test_two_runs_in_one_second_get_a_directory_each(openmpi, tmp_path):
    words = openmpi.mpi_gt("run", "-n", "2", "--iterations", "5", "--quiet")
    for process in [start(words, cwd=tmp_path) for _ in range(2)]:
        assert finish(process).code == 0
    assert sorted(facts(path)["status"] for path in (tmp_path / "runs").iterdir()) == [
        "finished",
        "finished",
    ]


def test_options_behind_two_dashes(openmpi, call, tmp_path):
    (tmp_path / "e.toml").write_text("iterations = 3")
    call(openmpi.mpi_gt("run", "-n", "2", "--quiet", "--", "e.toml"), cwd=tmp_path)
    call(openmpi.mpi_gt("run", "-n", "2", "--quiet", "--out=-odd", "e.toml"), cwd=tmp_path)
    assert (tmp_path / "-odd" / "run.json").exists()


def test_help_is_printed_once(mpi, call):
    done = call(mpi.mpirun(4, str(mpi.bin / "mpi-gt"), "run", "--help"))
    assert done.out.count("usage: mpi-gt run") == 1


def test_from_a_folder_of_another(openmpi, call, tmp_path):
    (tmp_path / "x1.npy").parent.mkdir(exist_ok=True)
    np.save(tmp_path / "x1.npy", np.zeros(10))
    call(openmpi.mpi_gt("run", "-n", "2", "--iterations", "3", "--x1", "x1.npy"), cwd=tmp_path)
    (directory,) = (tmp_path / "runs").iterdir()
    assert facts(directory)["status"] == "finished"


def without_times(directory):
    """Every file of a run, less what no two runs can share."""
    content = {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.name not in ("run.json", "summary.json", "metrics.csv", "comparison.png")
    }
    rows = [line.split(",") for line in (directory / "metrics.csv").read_text().splitlines()]
    seconds = rows[0].index("seconds")
    content["metrics.csv"] = [row[:seconds] + row[seconds + 1 :] for row in rows]
    timed = ("started", "finished", "seconds_per_iteration", "command", "config")

    def prune(thing):
        if isinstance(thing, dict):
            return {key: prune(value) for key, value in thing.items() if key not in timed}
        return thing

    for name in ("run.json", "summary.json"):
        if (directory / name).exists():
            content[name] = prune(json.loads((directory / name).read_text()))
    return content


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--graph", "watts-strogatz:seed=3", "--problem", "huber:spread=0.2"],
        ["compare", "--algorithms", "gt-adaptive,dsgd", "--graph", "nx.gnp_random_graph:p=0.6"],
    ],
    ids=lambda words: words[0],
)
def test_two_runs_of_one_command_give_the_same_bits(openmpi, words, call, tmp_path):
    options = ["-n", "5", "--iterations", "40", "--seeds", "2", "--quiet", "--out"]
    for name in "ab":
        call(openmpi.mpi_gt(*words, *options, tmp_path / name))
    first, second = (without_times(tmp_path / name) for name in "ab")
    assert set(first) >= {"run.json", "metrics.csv", "final.npz"}
    assert first == second


def test_users_own_classes_that_import_mpi(mpi, call, tmp_path):
    """The parent of mpirun looks at the class too, and must not become an MPI process by it."""
    (tmp_path / "mine.py").write_text(
        "from mpi4py import MPI\nfrom mpi_gt.algorithms.dsgd import DSGD\n"
        "class Mine(DSGD):\n    pass\n"
    )
    words = ["run", "-n", "3", "--algorithm", "mine:Mine", "--iterations", "5", "--out", "run"]
    call(mpi.mpi_gt(*words, "--quiet"), cwd=tmp_path)
    (tmp_path / "mine.py").write_text("class Mine:\n    def init(self): ...\n")
    for launcher in (mpi.mpi_gt(), mpi.mpirun(3, str(mpi.bin / "mpi-gt"))):
        done = call([*launcher, *words, "--overwrite"], cwd=tmp_path, expect=2)
        assert done.err.count("lacks step()") == 1
