"""Methods that look at their node, and each neighbour's vector, on real ranks."""

from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import mpi_gt
from mpi_gt.comm import EXCHANGE_NAMES
from mpi_gt.comm.exchange import EXCHANGES
from mpi_gt.comm.node import Node
from mpi_gt.errors import UserError
from mpi_gt.graphs import build_network

pytestmark = pytest.mark.mpi

METHODS = ("Extra:lr=0.3", "EdgeExtra:lr=0.3", "Admm:lr=0.3", "OwnRate:lr=0.3", "RandK:lr=0.05",
           "Median")  # fmt: skip
OPTIONS = {"iterations": 12, "seeds": 2, "problem": "huber:dim=6,spread=0.3", "graph": "ring",
           "log_every": 4}  # fmt: skip


@pytest.fixture
def world():
    """The world alone: whole runs take longer than single exchanges."""
    made = MPI.COMM_WORLD.Dup()
    yield made
    made.Free()


def make(comm, exchange, graph="er:p=0.7"):
    network = build_network(graph, None, comm.size)
    return Node(comm, network.row(comm.rank), EXCHANGES[exchange]), network


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_each_neighbour_s_vector_by_all_exchanges(comm, random, exchange):
    for dtype, shape in ((np.float64, (2, 3)), (np.float32, (1, 5))):
        node, network = make(comm, exchange)
        everyone = random.standard_normal((2, comm.size, *shape)).astype(dtype)
        for vectors in (2, 1):
            node.iteration += 1
            pending = node.mix.each(*everyone[:vectors, comm.rank])
            assert len(pending) == vectors
            for sent, result in reversed([*zip(everyone, pending, strict=False)]):
                others = result.wait()
                assert list(others) == sorted(network.graph.neighbors(comm.rank))
                for j, z in others.items():
                    np.testing.assert_array_equal(z, sent[j])
                    assert z.dtype == dtype
                    z[:] = 0  # they belong to the caller
        assert node.bytes_sent == 3 * len(node.row.neighbours) * everyone[0, 0].nbytes
        node.free()


def test_forgotten_and_repeated_waits_for_each_are_errors(comm):
    node, _ = make(comm, "neighbor")
    z = np.ones((1, 4))
    a, b = node.mix.each(z, z)
    a.wait()
    with pytest.raises(RuntimeError, match="already"):
        a.wait()
    for call in (node.mix, node.mix.each):
        with pytest.raises(RuntimeError, match="never waited"):
            call(z)
    b.wait()
    node.mix(z).wait()
    assert list(node.mix.each(z).wait()) == list(node.row.neighbours)
    node.free()


def test_a_wrong_stamp_is_found_by_each_as_well(comm):
    node, _ = make(comm, "neighbor", "complete")
    node.iteration = 6 if comm.rank == comm.size - 1 else 5
    pending = node.mix.each(np.ones((1, 4)))
    if comm.size == 1:
        assert pending.wait() == {}
    else:
        with pytest.raises(RuntimeError, match="is of iteration"):
            pending.wait()
    node.free()


@pytest.mark.parametrize("method", METHODS)
def test_a_method_with_a_place_equals_stacked(world, method):
    options = {**OPTIONS, "algorithm": f"own_methods:{method}"}
    ours = mpi_gt.run(world, **options)
    stacked = world.bcast(
        mpi_gt.run(stacked=True, n=world.size, **options) if world.rank == 0 else None
    )
    assert np.abs(ours.x - stacked.x[world.rank]).max() <= 1e-12
    if world.rank == 0:
        assert [row["bytes"] for row in ours.metrics] == [row["bytes"] for row in stacked.metrics]


def test_each_gives_the_same_bits_by_all_exchanges(world, tmp_path_factory):
    written = set()
    for exchange in EXCHANGE_NAMES:
        out = world.bcast(str(tmp_path_factory.mktemp("run") / exchange))
        mpi_gt.run(world, exchange=exchange, out=out, algorithm="own_methods:Median", **OPTIONS)
        written.add((Path(out) / "final.npz").read_bytes() if world.rank == 0 else b"")
    assert len(written) == 1


@pytest.mark.parametrize("method", METHODS[1:5:2] + METHODS[4:5])
def test_a_method_with_a_place_is_resumed_to_the_same_bits(world, method, tmp_path_factory):
    folder = world.bcast(str(tmp_path_factory.mktemp("runs")))
    options = {**OPTIONS, "algorithm": f"own_methods:{method}", "log_every": 3}
    whole = mpi_gt.run(world, **options)
    out = f"{folder}/parts"
    mpi_gt.run(world, **{**options, "iterations": 7}, checkpoint_every=5, out=out)
    parts = mpi_gt.run(world, **options, checkpoint_every=5, out=out, resume=True)
    np.testing.assert_array_equal(parts.x, whole.x)
    for one, other in zip(parts.metrics, whole.metrics, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


SOURCE = """
import numpy as np
from mpi_gt.problems.base import Problem

class Bowl(Problem):
    def __init__(self, place, own: int = 0, differ: int = 0):
        self.dim, self.place, self.own = 3, place, own
        self.start_differs = bool(differ)

    def gradient(self, t, x):
        return x - 1

    def evaluate(self, x):
        return ((x - 1) ** 2).sum(axis=-1) / 2, x - 1

    def start(self, seed):
        shared = self.own != 1
        return self.place.random(seed, 1, shared=shared).standard_normal(3)

    def metrics(self, x):
        names = ["distance", "node"] if self.own != 2 or self.place.node == 0 else ["node"]
        return {name: np.full(len(x), float(self.place.node)) for name in names}
"""


@pytest.fixture
def bowl(world, tmp_path_factory, monkeypatch):
    folder = world.bcast(str(tmp_path_factory.mktemp("module")))
    name = f"bowl_{abs(hash(folder)) % 10**6}_{world.size}"
    name = world.bcast(name)
    if world.rank == 0:
        (Path(folder) / f"{name}.py").write_text(SOURCE)
    world.Barrier()
    monkeypatch.syspath_prepend(folder)
    return f"{name}:Bowl"


def test_a_start_and_metrics_of_one_s_own_equals_stacked(world, bowl):
    options = {**OPTIONS, "problem": bowl, "algorithm": "gt:lr=0.1"}
    ours = mpi_gt.run(world, **options)
    stacked = world.bcast(
        mpi_gt.run(stacked=True, n=world.size, **options) if world.rank == 0 else None
    )
    assert np.abs(ours.x - stacked.x[world.rank]).max() <= 1e-12
    if world.rank == 0:
        first = ours.metrics[0]
        assert first["consensus"] < 1e-28
        assert first["gap"] > 0.1
        assert first["node"] == first["distance"] == pytest.approx((world.size - 1) / 2)
        assert [list(row) for row in ours.metrics] == [list(row) for row in stacked.metrics]


def test_starts_and_names_that_differ_are_an_error_on_every_rank(world, bowl):
    if world.size == 1:
        return
    for option, message in (("own=1", "Bowl.start must return the same x_1 on every node"),
                            ("own=2", r"Bowl.metrics must return the same names")):  # fmt: skip
        with pytest.raises(UserError, match=message):
            mpi_gt.run(world, **{**OPTIONS, "problem": f"{bowl}:{option}"})
    apart = mpi_gt.run(world, **{**OPTIONS, "problem": f"{bowl}:own=1,differ=1"})
    assert world.rank > 0 or apart.metrics[0]["consensus"] > 0.1
