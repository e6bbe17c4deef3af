"""The real commands under the real mpirun: ways to launch, host lists, the same numbers."""

import json
from pathlib import Path

import numpy as np
import pytest
from support import FIGURES, ROOT_OF_REPOSITORY, facts, finish, start

SHIM = Path(__file__).parent / "count_collectives.c"


def output(directory):
    with np.load(directory / "final.npz") as file:
        return file["x"]


def test_sixteen_ranks_of_mpich_equal_stacked(mpich, call, tmp_path):
    """tests/ranks does the same on fewer ranks, with all exchanges; for Open MPI also on 16."""
    options = ["-n", "16", "--iterations", "60", "--seeds", "3", "--quiet", "--out"]
    call(mpich.mpi_gt("run", "--stacked", *options, tmp_path / "stacked"))
    for exchange in ("neighbor", "shared"):
        done = call(mpich.mpi_gt("run", "--exchange", exchange, *options, tmp_path / exchange))
        assert (done.out, done.err) == ("", "")
    difference = output(tmp_path / "neighbor") - output(tmp_path / "stacked")
    assert np.abs(difference).max() <= 1e-12
    first, second = (tmp_path / exchange / "final.npz" for exchange in ("neighbor", "shared"))
    assert first.read_bytes() == second.read_bytes()


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
    """The README promises a gap from 0.4 to below 1e-3, on 16 ranks."""
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
    """The calls are counted through MPI's profiling interface, beneath mpi4py."""
    shim = tmp_path / "shim.so"
    call([mpi.mpicc(tmp_path), "-shared", "-fPIC", "-o", shim, SHIM])
    done = call(
        mpi.mpi_gt("run", "-n", "3", "--iterations", "123", "--exchange", exchange, "--out",
                   tmp_path / "run", "--quiet"),
        env={"LD_PRELOAD": str(shim)},
    )  # fmt: skip
    counts = [line.split()[1:] for line in done.err.splitlines() if line.startswith("collectives")]
    expected = {"neighbor": ["123", "0"], "persistent": ["0", "123"]}[exchange]
    assert sorted(counts) == [[str(rank), *expected] for rank in range(3)], str(done)


def test_doctor(mpi, call):
    done = call(mpi.mpirun(4, str(mpi.bin / "mpi-gt"), "doctor"), env={"OMP_NUM_THREADS": "3"})
    assert {"openmpi": "Open MPI", "mpich": "MPICH"}[mpi.name] in done.out
    assert "4 on 1 host" in done.out
    assert done.out.count(" us\n") == 2, str(done)
    assert done.out.count("BLAS may start 3 threads") == 1
    alone = call(mpi.mpi_gt("doctor"), env={"OMP_NUM_THREADS": "1"})
    assert "no problems found" in alone.out, str(alone)
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


def test_only_root_needs_the_files(mpi, call, tmp_path):
    """Other hosts may lack the files: here, the second rank has another working directory."""
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
    """Return every file of a run, without times and paths, in which any two runs differ."""
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
