"""`mpi_gt.run` on communicators that the caller made."""

import gc
import signal
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import mpi_gt
from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.comm import EXCHANGE_NAMES
from mpi_gt.comm.node import Node
from mpi_gt.config import RunConfig
from mpi_gt.engine.build import build
from mpi_gt.engine.run import run as run_experiment
from mpi_gt.engine.stop import StopRequest
from mpi_gt.errors import Diverged, Stopped, UserError
from mpi_gt.graphs import build_network

pytestmark = pytest.mark.mpi

OPTIONS = {"iterations": 40, "seeds": 2, "problem": "huber:dim=6,spread=0.3"}


def run_stacked(comm, **options):
    """The file is read on one rank, for all."""
    return comm.bcast(mpi_gt.run(stacked=True, **options) if comm.rank == 0 else None)


@pytest.mark.parametrize(
    ("exchange", "graph"), [*((name, "er:p=0.7") for name in EXCHANGE_NAMES), ("neighbor", "ring")]
)
def test_equals_stacked(comm, exchange, graph):
    ours = mpi_gt.run(comm, graph=graph, exchange=exchange, **OPTIONS)
    stacked = run_stacked(comm, n=comm.size, graph=graph, **OPTIONS)
    assert np.abs(ours.x - stacked.x[comm.rank]).max() <= 1e-12
    if comm.rank == 0:
        for mine, theirs in zip(ours.metrics, stacked.metrics, strict=True):
            for name in ("loss", "grad_norm2", "consensus", "gap"):
                assert mine[name] == pytest.approx(theirs[name], rel=1e-9, abs=1e-15)
            assert mine["bytes"] == theirs["bytes"]
            assert mine["tracking"] < 1e-12
    else:
        assert not ours.metrics


def test_every_exchange_gives_the_same_bits(comm, tmp_path_factory):
    """final.npz is the same with every exchange."""
    written = set()
    for exchange in EXCHANGE_NAMES:
        out = comm.bcast(str(tmp_path_factory.mktemp("run") / exchange))
        mpi_gt.run(comm, exchange=exchange, out=out, **OPTIONS)
        written.add((Path(out) / "final.npz").read_bytes() if comm.rank == 0 else b"")
    assert len(written) == 1


def test_every_algorithm_equals_stacked(comm):
    options = {"algorithms": ",".join(ALGORITHMS), "iterations": 30, "seeds": 2, "dtype": "float64"}
    ours = mpi_gt.run(comm, **options)
    stacked = run_stacked(comm, n=comm.size, **options)
    assert list(ours.outputs) == list(ALGORITHMS)
    for name, x in ours.outputs.items():
        assert np.abs(x - stacked.outputs[name][comm.rank]).max() <= 1e-12, name
    if comm.rank == 0:
        for mine, theirs in zip(ours.metrics, stacked.metrics, strict=True):
            assert mine["bytes"] == theirs["bytes"]


@pytest.mark.parametrize("problem", ["softmax", "mlp:hidden=7"])
def test_a_classification_equals_stacked(comm, problem):
    problem = f"{problem}{',' if ':' in problem else ':'}rows=333,split=dirichlet:0.5"
    options = {"problem": problem, "iterations": 20, "seeds": 2}
    ours = mpi_gt.run(comm, algorithm="gt:lr=0.1", **options)
    stacked = run_stacked(comm, n=comm.size, algorithm="gt:lr=0.1", **options)
    assert np.abs(ours.x - stacked.x[comm.rank]).max() <= 1e-12
    if comm.rank == 0:
        assert ours.facts["test_accuracy"] == stacked.facts["test_accuracy"]
        assert ours.metrics[-1]["accuracy"] == pytest.approx(stacked.metrics[-1]["accuracy"])


def test_errors_leak_no_communicators(comm, monkeypatch):
    """MPICH has some two thousand communicators."""
    made, freed = [], []
    restart, free = Node.restart, Node.free
    monkeypatch.setattr(Node, "restart", lambda node: (made.append(node), restart(node)))
    monkeypatch.setattr(Node, "free", lambda node: (freed.append(node), free(node)))
    with pytest.raises(UserError):
        mpi_gt.run(comm, problem="huber:dim=0")
    assert made
    assert freed == made


def test_two_runs_side_by_side_on_halves_of_the_world():
    world = MPI.COMM_WORLD
    half = world.Split(world.rank % 2)
    ours = mpi_gt.run(half, seed=world.rank % 2, **OPTIONS)
    alone = run_stacked(half, n=half.size, seed=world.rank % 2, **OPTIONS)
    assert np.abs(ours.x - alone.x[half.rank]).max() <= 1e-12
    half.Free()


def test_a_rank_that_is_asked_to_stop_is_heard_at_once(comm, tmp_path_factory, monkeypatch):
    """Between two measurements the loop polls nothing; the signal makes it poll."""
    out = comm.bcast(str(tmp_path_factory.mktemp("run") / "stopped"))
    options = {"iterations": 1000, "log_every": 1000, "out": out, "quiet": True, "seeds": 2}
    options["graph"] = "ring"
    diameter = max(1, comm.size // 2)
    stop, walk = StopRequest(), Node.stepper

    def walk_and_ask(node, step, gradient, last):
        def asking(t, *rest):
            if t == 20 and comm.rank == comm.size - 1:
                stop._on_signal(signal.SIGTERM, None)
            return step(t, *rest)

        return walk(node, asking, gradient, last)

    monkeypatch.setattr(Node, "stepper", walk_and_ask)
    with pytest.raises(Stopped, match=f"after iteration {21 + diameter} of 1000"):
        run_experiment(RunConfig.of(options), comm, stop)


def test_divergence_reaches_every_rank(comm):
    with pytest.raises(Diverged, match="after iteration 5"):
        mpi_gt.run(comm, algorithm="gt-adaptive:lr=1e308", log_every=5)


@pytest.mark.parametrize(
    "options",
    [
        {"n": 99},
        {"graph": "er:p=2"},
        {"problem": "huber:data=absent.npz"},
        {"problem": "huber:dim=0"},
        {"x1": "absent.npy"},
        {"weights": "absent.npy"},
        {"out": "/dev/null/run"},
    ],
    ids=str,
)
def test_bad_input_is_an_error_on_every_rank(comm, options):
    with pytest.raises(UserError):
        mpi_gt.run(comm, **options)


def reachable_arrays(thing):
    """Return every array that can be reached from an object, through any container."""
    seen, waiting, arrays = set(), [thing], []
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, type) or type(item).__name__ == "module":
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            arrays.append(item)
            waiting.append(item.base)
        waiting += gc.get_referents(item)
    return arrays


def test_a_rank_holds_its_own_row_and_its_own_data_only(comm, tmp_path_factory):
    """With this d the data of all nodes would be far larger than that of one."""
    d, n = 120, comm.size
    path = None
    if comm.rank == 0:
        path = str(tmp_path_factory.mktemp("data") / "data.npz")
        random = np.random.default_rng(0)
        phi = random.standard_normal((n, d, d))
        np.savez(path, Phi=phi, x_star=random.standard_normal(d))
        del phi
    path = comm.bcast(path)
    config = RunConfig.of({"problem": f"huber:data={path}", "quiet": True})
    build(config, comm).node.free()  # imports done, caches filled
    gc.collect()
    tracemalloc.start()
    experiment = build(config, comm)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    own = d * d * 8
    assert held < 3 * own + 200_000, f"rank {comm.rank} holds {held} bytes, its part is {own}"

    arrays = reachable_arrays([experiment.node.row, experiment.problem, experiment.x1])
    assert any(array.size == d * d for array in arrays)
    assert max(array.size for array in arrays) == d * d
    matrix = build_network(None, None, n).matrix
    np.testing.assert_array_equal(
        experiment.node.row.weights, matrix[comm.rank, list(experiment.node.row.neighbours)]
    )
    experiment.node.free()
