import time

import numpy as np
import pytest
from mpi4py import MPI

from mpi_gt.comm.base import weights_in_order
from mpi_gt.comm.collective import on_every_rank, on_root
from mpi_gt.comm.exchange import EXCHANGES
from mpi_gt.comm.node import NEVER, Node
from mpi_gt.comm.timing import fastest_exchange, unavailable_reason
from mpi_gt.errors import UserError
from mpi_gt.graphs import build_network
from mpi_gt.graphs.network import undirected_row
from mpi_gt.kernels.reference import WeightedSum
from mpi_gt.performance import clock_sync
from mpi_gt.performance.clock_sync import Alignment, Reading, read_clock

pytestmark = pytest.mark.mpi


def make(comm, graph="er:p=0.7", exchange="neighbor"):
    network = build_network(graph, None, comm.size)
    return Node(comm, network.row(comm.rank), EXCHANGES[exchange]), network.matrix


def frozen(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize(
    ("shape", "dtype", "graph"),
    [
        ((1, 1), np.float64, "star"),
        ((3, 7), np.float32, "er:p=0.7"),
        ((2, 3000), np.float64, "ring"),
    ],
)
def test_mix_is_the_product_with_the_matrix(comm, random, graph, exchange, shape, dtype):
    node, matrix = make(comm, graph, exchange)
    tolerance = 1e-13 if dtype == np.float64 else 1e-5
    for vectors in (2, 1, 2):
        everyone = random.standard_normal((vectors, comm.size, *shape)).astype(dtype)
        node.iteration += 1
        pending = node.mix(*(frozen(z[comm.rank].copy()) for z in everyone))
        assert len(pending) == vectors
        for z, result in zip(everyone, pending, strict=True):
            mixed = result.wait()
            assert mixed.dtype == dtype
            expected = np.tensordot(matrix[comm.rank], z.astype(np.float64), axes=1)
            np.testing.assert_allclose(mixed, expected, atol=tolerance)
    node.free()


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_vectors_of_several_shapes_in_turn(comm, random, exchange):
    node, matrix = make(comm, "ring", exchange)
    shapes = [((2, 5),), ((2, 1),), ((2, 5), (2, 1)), ((2, 1), (2, 5)), ((2, 5),)]
    for wanted in (*shapes, *shapes):
        everyone = [random.standard_normal((comm.size, *shape)) for shape in wanted]
        node.iteration += 1
        pending = node.mix(*(z[comm.rank] for z in everyone))
        for z, result in zip(everyone, pending, strict=True):
            expected = np.tensordot(matrix[comm.rank], z, axes=1)
            np.testing.assert_allclose(result.wait(), expected, atol=1e-13)
    node.free()


def test_all_exchanges_give_the_same_bits(comm, random):
    everyone = random.standard_normal((2, comm.size, 2, 5000))
    results = []
    for exchange in EXCHANGES:
        node, _ = make(comm, exchange=exchange)
        pending = node.mix(*everyone[:, comm.rank])
        results.append(b"".join(result.wait().tobytes() for result in pending))
        node.free()
    assert len(set(results)) == 1


def test_on_the_complete_graph_all_nodes_get_the_same_bits(comm, random):
    """A node adds its own vector at its place in rank order, so all nodes sum in one order."""
    everyone = random.standard_normal((comm.size, 4, 9))
    node = Node(
        comm,
        undirected_row(
            comm.rank,
            tuple(j for j in range(comm.size) if j != comm.rank),
            np.full(comm.size - 1, 1 / comm.size),
            1 / comm.size,
        ),
        EXCHANGES["neighbor"],
    )
    mixed = node.mix(everyone[comm.rank]).wait()
    assert len(set(comm.allgather(mixed.tobytes()))) == 1
    node.free()


def test_combine_adds_in_rank_order(comm):
    """The sum has the bits of a plain loop, also when it is made in pieces."""
    random = np.random.default_rng(comm.rank)
    for length in (1, 10, WeightedSum.PIECE, 2 * WeightedSum.PIECE + 3):
        row = undirected_row(2, (0, 1, 3, 7), random.random(4), random.random())
        rows, own = random.standard_normal((4, length)), random.standard_normal(length)
        expected = np.zeros(length)
        for weight, z in zip(
            [*row.weights[:2], row.own, *row.weights[2:]], [*rows[:2], own, *rows[2:]], strict=True
        ):
            expected = expected + weight * z
        (weights,), place = weights_in_order(2, row.layers[0], ("A",), np.dtype(float))
        combined = WeightedSum(weights, place, length)(rows, own)
        np.testing.assert_array_equal(combined, expected)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_results_belong_to_the_caller(comm, exchange):
    node, _ = make(comm, exchange=exchange)
    z = np.full((1, 4), float(comm.rank))
    first = node.mix(z)[0].wait()
    kept = first.copy()
    z[:] = -1  # after mix has returned, the input is the caller's again
    node.iteration += 1
    second = node.mix(z)[0].wait()
    np.testing.assert_array_equal(first, kept)
    first[:] = 77
    np.testing.assert_allclose(second, -1)
    node.free()


def test_inputs_are_copied_before_mix_returns(comm):
    for exchange in EXCHANGES:
        node, _ = make(comm, exchange=exchange)
        z = np.ones((1, 4))
        (pending,) = node.mix(z)
        z[:] = 5
        np.testing.assert_allclose(pending.wait(), 1)
        node.free()


def test_forgotten_and_repeated_waits_are_errors(comm):
    node, _ = make(comm)
    z = np.ones((1, 4))
    a, b = node.mix(z, z)
    a.wait()
    with pytest.raises(RuntimeError, match="already"):
        a.wait()
    with pytest.raises(RuntimeError, match="never waited"):
        node.mix(z)
    b.wait()
    node.mix(z).wait()
    for vectors in ((), (z,) * 65):
        with pytest.raises(ValueError, match=f"1 to 64 vectors, not {len(vectors)}"):
            node.mix(*vectors)
    node.free()


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_wrong_stamp_is_an_error_that_names_the_sender(comm, exchange):
    node, _ = make(comm, "complete", exchange)
    node.iteration = 6 if comm.rank == comm.size - 1 else 5
    (pending,) = node.mix(np.ones((1, 4)))
    if comm.size == 1:
        pending.wait()
    else:
        sender = 0 if comm.rank == comm.size - 1 else comm.size - 1
        with pytest.raises(RuntimeError, match=f"from node {sender} is of iteration"):
            pending.wait()
    node.free()


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_an_earlier_stop_floods_the_graph(comm, exchange):
    node, _ = make(comm, "ring", exchange)
    assert node.stop_at == NEVER
    if comm.rank == comm.size - 1:
        node.stop_at = 40
    if comm.rank == 0:
        node.stop_at = min(node.stop_at, 50)
    for t in range(1, comm.size + 1):
        node.iteration = t
        node.mix(np.ones((1, 4))).wait()
    assert node.stop_at == 40
    node.free()


def test_ends_that_disagree_on_an_edge_are_found_before_the_first_exchange(comm):
    network = build_network("complete", None, comm.size)
    row = network.row(comm.rank)
    if comm.rank == 0 and comm.size > 1:
        row = undirected_row(0, row.neighbours[:-1], row.weights[:-1], row.own)
    if comm.size > 1:
        with pytest.raises(UserError, match=r"nodes 0 and \d+ disagree"):
            Node(comm, row, EXCHANGES["neighbor"])
        with pytest.raises(UserError, match="was given the row"):
            Node(comm, network.row((comm.rank + 1) % comm.size), EXCHANGES["neighbor"])


def test_topology_is_the_graph(comm):
    node, _ = make(comm)
    sources, destinations, _ = node.graph_comm.Get_dist_neighbors()
    assert tuple(sources) == tuple(destinations) == node.row.neighbours
    assert node.graph_comm.Get_topology() == MPI.DIST_GRAPH
    assert node.graph_comm.rank == comm.rank
    node.free()


def test_collect_brings_every_node_in_turn(comm):
    node, _ = make(comm)
    parts = node.stream_to_root(np.full((2, 3), comm.rank))
    if node.is_root:
        np.testing.assert_array_equal([part[0, 0] for part in parts], range(comm.size))
    node.free()


def test_bytes_are_those_of_the_vectors_sent(comm):
    node, _ = make(comm)
    z = np.ones((2, 5), np.float32)
    node.mix(z)[0].wait()
    for result in node.mix(z, z):
        result.wait()
    assert node.bytes_sent == len(node.row.neighbours) * 3 * z.nbytes
    node.free()


def test_a_user_error_on_one_rank_is_raised_on_all(comm):
    def fail():
        if comm.rank == comm.size - 1:
            raise UserError("the last one")
        return comm.rank

    with pytest.raises(UserError, match="the last one"):
        on_every_rank(comm, fail)
    assert on_every_rank(comm, lambda: comm.rank) == comm.rank
    assert on_root(comm, lambda: 7) == (7 if comm.rank == 0 else None)


def test_an_exchange_that_mpi_lacks_is_left_out_with_a_reason(comm, monkeypatch):
    def missing(self, *arguments):
        raise NotImplementedError("MPI_Neighbor_allgather_init")

    monkeypatch.setattr(EXCHANGES["persistent"], "__init__", missing)
    node, _ = make(comm)
    assert "MPI_Neighbor_allgather_init" in unavailable_reason(node, EXCHANGES["persistent"])
    assert unavailable_reason(node, EXCHANGES["p2p"]) is None
    chosen, times, left_out = fastest_exchange(node, 160, rounds=1, count=1)
    assert set(left_out) == {"persistent"}
    assert "persistent" not in times
    assert chosen in times
    assert len(set(comm.allgather(chosen))) == 1
    node.free()


def test_clocks_of_one_host_agree(comm):
    first, last = read_clock(comm), read_clock(comm)
    aligned = Alignment(first, last)
    assert abs(aligned.offset) <= 1_000_000
    moment = np.array([last.time])
    assert abs(int(aligned.to_root(moment)[0]) - last.time) <= 1_000_000


def test_clocks_that_differ_are_compared_along_a_tree(comm, monkeypatch):
    """Every rank has a clock of its own, a second ahead of that of the rank before."""
    ahead = 10**9 * comm.rank
    monkeypatch.setattr(clock_sync, "clock_id", lambda: f"clock {comm.rank}")
    monkeypatch.setattr(clock_sync, "perf_counter_ns", lambda: time.perf_counter_ns() + ahead)
    reading = read_clock(comm)
    assert abs(reading.offset + ahead) <= reading.uncertainty
    assert (reading.uncertainty > 0) == (comm.rank > 0)


def test_ranks_with_one_clock_have_nothing_to_compare(comm, monkeypatch):
    monkeypatch.setattr(clock_sync, "clock_id", lambda: "one clock")
    reading = read_clock(comm)
    assert (reading.offset, reading.uncertainty) == (0, 0)


def test_messages_to_all_ranks_must_fit_into_memory(comm, monkeypatch):
    node, _ = make(comm)
    monkeypatch.setattr("mpi_gt.memory.host_memory", lambda: 10**7)
    size = 16 * 10**6
    reason = unavailable_reason(node, EXCHANGES["allgather"], trial=False, payload=size)
    assert "16 MB from each of" in str(reason)
    assert unavailable_reason(node, EXCHANGES["neighbor"], trial=False, payload=160) is None
    node.free()


def test_a_clock_that_is_off_and_drifts_is_put_right():
    first, last = Reading(1000, 500, 1), Reading(2_001_000, 700, 1)
    aligned = Alignment(first, last)
    times = aligned.to_root(np.array([1000, 1_001_000, 2_001_000]))
    assert times.tolist() == [1500, 1_001_600, 2_001_700]
