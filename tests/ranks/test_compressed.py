"""`mix.compressed` on real ranks, against all nodes in one process."""

import numpy as np
import pytest

from mpi_gt.comm.compressed_timing import CompressedTimer
from mpi_gt.comm.compression import Encoder
from mpi_gt.comm.exchange import EXCHANGES
from mpi_gt.comm.message import HEADER_WORDS
from mpi_gt.comm.node import Node
from mpi_gt.comm.stacked import StackedNode
from mpi_gt.compressors import make_compressor
from mpi_gt.graphs import build_network
from mpi_gt.problems.base import Place

pytestmark = pytest.mark.mpi

SPECS = (
    "none",
    "bfloat16",
    "float16",
    "float32",
    "qsgd:bits=2,block=5",
    "qsgd",
    "qsgd:bits=8",
    "sign",
    "top",
)


def encoder(spec, node, nodes, seeds, dtype):
    place = Place(node, nodes, tuple(range(seeds)), np.dtype(dtype))
    return Encoder(make_compressor(spec), place)


def stacked_results(spec, arcs, iterations, everyone):
    """Return own and mixed vectors, (iterations, 2, vectors, nodes, ...), and bytes sent."""
    node = StackedNode(arcs)
    nodes, seeds, dtype = node.nodes, everyone.shape[-2], everyone.dtype
    node.compress_with([encoder(spec, i, nodes, seeds, dtype) for i in range(nodes)])
    made = []
    for node.iteration in iterations:
        pairs = node.mix.compressed(*everyone)
        made.append([[own for own, _ in pairs], [pending.wait() for _, pending in pairs]])
    return np.array(made), node.bytes_sent


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_all_exchanges_equal_stacked_when_compressed(comm, random, spec, dtype):
    network = build_network("er:p=0.7", None, comm.size)
    everyone = random.standard_normal((2, comm.size, 3, 37)).astype(dtype)
    everyone[1] *= 1e-3
    iterations = (1, 2, 7)
    expected, sent = stacked_results(spec, network.arcs, iterations, everyone)
    for exchange in EXCHANGES:
        node = Node(comm, network.row(comm.rank), EXCHANGES[exchange])
        node.compress_with([encoder(spec, comm.rank, comm.size, 3, dtype)])
        for place, node.iteration in enumerate(iterations):
            (q, aq), (r, ar) = node.mix.compressed(*everyone[:, comm.rank])
            results = np.array([[q, r], [aq.wait(), ar.wait()]])
            assert results.tobytes() == expected[place, :, :, comm.rank].tobytes(), exchange
        assert node.bytes_sent == sent[comm.rank]
        node.free()


def test_the_sum_is_that_of_what_neighbours_decode(comm, random):
    network = build_network("er:p=0.7", None, comm.size)
    everyone = random.standard_normal((comm.size, 2, 40))
    compressor = make_compressor("sign")
    decoded = np.array(
        [compressor.decode(compressor.encode(z, None), z.shape, z.dtype) for z in everyone]
    )
    node = Node(comm, network.row(comm.rank), EXCHANGES["neighbor"])
    node.compress_with([Encoder(compressor, Place(comm.rank, comm.size, (0, 1)))])
    ((own, pending),) = node.mix.compressed(everyone[comm.rank])
    assert np.array_equal(own, decoded[comm.rank])
    expected = np.tensordot(network.matrix[comm.rank], decoded, axes=1)
    np.testing.assert_allclose(pending.wait(), expected, atol=1e-14)
    node.free()


def test_results_outlive_the_next_exchange_and_must_be_waited_for(comm):
    network = build_network("complete", None, comm.size)
    node = Node(comm, network.row(comm.rank), EXCHANGES["neighbor"])
    with pytest.raises(TypeError, match="attribute `compressor`"):
        node.mix.compressed(np.ones((1, 3)))
    node.compress_with([encoder("none", comm.rank, comm.size, 1, float)])
    ((first, pending),) = node.mix.compressed(np.ones((1, 3)))
    with pytest.raises(RuntimeError, match="never waited for"):
        node.mix.compressed(np.ones((1, 3)))
    pending.wait()
    with pytest.raises(RuntimeError, match="waited for already"):
        pending.wait()
    ((_, pending),) = node.mix.compressed(np.full((1, 3), 2.0))
    assert np.array_equal(pending.wait(), np.full((1, 3), 2.0))
    assert np.array_equal(first, np.ones((1, 3)))
    with pytest.raises(ValueError, match="not of shape"):
        node.mix.compressed(np.ones(3))
    node.free()


def test_a_message_has_the_length_of_its_payloads(comm):
    """Each payload is padded to words of eight bytes, after a header."""
    network = build_network("complete", None, comm.size)
    node = Node(comm, network.row(comm.rank), EXCHANGES["neighbor"])
    node.compress_with([encoder("sign", comm.rank, comm.size, 2, float)])
    for _, pending in node.mix.compressed(np.ones((2, 17)), np.ones((2, 100))):
        pending.wait()
    (message,) = node.plans[-1]._messages
    sizes = 2 * (8 + 3), 2 * (8 + 13)
    assert message.send.size == HEADER_WORDS + sum(-(-size // 8) for size in sizes)
    assert node.bytes_sent == (comm.size - 1) * sum(sizes)
    node.free()


@pytest.mark.parametrize("exchange", list(EXCHANGES))
def test_the_benchmark_notices_numbers_that_were_not_sent(comm, exchange, monkeypatch):
    node = Node(comm, build_network("complete", None, comm.size).row(comm.rank), EXCHANGES["p2p"])
    timer = CompressedTimer(node, EXCHANGES[exchange], 1600, make_compressor("qsgd"))
    assert node.exchange_class is EXCHANGES["p2p"]
    timer.check(2)
    total = timer.seconds(3)
    assert timer.seconds(2) > 0
    assert len(timer.stages) == 2
    assert total == pytest.approx(sum(timer.stages[0]))
    assert timer.sent == 2 * (2 * 4 + 50)
    timer.check(3)
    honest = timer._pattern
    if comm.rank == 1:  # it sends other vectors than its neighbours expect of it
        monkeypatch.setattr(
            timer, "_pattern", lambda i, mark: honest(i + 100 if i == 1 else i, mark)
        )
    caught = None
    try:
        timer.check(4)
    except RuntimeError as error:
        caught = str(error)
    assert (caught is None) == (comm.rank == 1 or comm.size == 1)
    if caught:
        assert "decoded other numbers of node 1" in caught
    timer.free()
    node.free()


@pytest.mark.parametrize("graph", ["directed-ring", "ring+path"])
def test_the_benchmark_compresses_on_directed_and_changing_graphs(comm, graph):
    if comm.size < 3:
        return
    node = Node(comm, build_network(graph, None, comm.size).row(comm.rank), EXCHANGES["neighbor"])
    timer = CompressedTimer(node, EXCHANGES["neighbor"], 1600, make_compressor("sign"))
    timer.check(2)
    assert timer.seconds(2) > 0
    assert timer.sources == np.mean([len(layer.sources) for layer in node.row.layers])
    timer.free()
    node.free()
