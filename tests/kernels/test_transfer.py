"""Packing, sending and summing in the kernels against their Python reference, to the last bit."""

import numpy as np
import pytest
from transfers import Sent

from mpi_gt import kernels
from mpi_gt.comm.message import Message
from mpi_gt.kernels import reference as twins

pytestmark = pytest.mark.usefixtures("kernels_built")


def both(*arguments, **options):
    return [Sent(way, *arguments, **options) for way in (kernels.C, twins)]


@pytest.mark.parametrize("degree", [0, 1, 4, 9, 70])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_same_sums(degree, dtype):
    for length in (1, 10, 5000):
        z = np.random.default_rng(0).standard_normal(length).astype(dtype)
        sums = []
        for sent in both((1,), degree, (length,), dtype):
            (pending,) = sent.transfer(z)
            sums.append(pending.wait())
        assert sums[0].dtype == dtype
        np.testing.assert_array_equal(*sums)


@pytest.mark.parametrize("counts", [(2,), (1, 1)])
@pytest.mark.parametrize("blocking", [False, True])
def test_the_same_transfers(counts, blocking):
    vectors = np.random.default_rng(0).standard_normal((2, 3, 4))
    seen = []
    for sent in both(counts, blocking=blocking):
        first, second = sent.transfer(*vectors)
        results = second.wait(), first.wait()
        assert sent.node.waiting is None
        assert sent.checked is None
        with pytest.raises(RuntimeError, match="waited for already"):
            first.wait()
        seen.append(
            (sent.calls, sent.node.waits, sent.node.bytes_sent,
             [m.send.tobytes() for m in sent.messages], [z.tobytes() for z in results])
        )  # fmt: skip
    assert seen[0] == seen[1]
    assert seen[0][0][0] == ("start",)
    finished = [("finish", which) for which in range(len(counts))]
    assert seen[0][0][1:] == ([] if blocking else finished[::-1])


def test_a_header_that_differs_is_checked():
    for sent in both():
        sent.messages[0].headers[2, 1] = 40
        for pending in sent.transfer(*np.ones((2, 3, 4))):
            pending.wait()
        assert sent.checked[2].tolist() == [5, 40]


@pytest.mark.parametrize("odd", [np.ones((3, 4), np.float32), np.ones((4, 3)).T, np.ones((2, 4))])
def test_vectors_of_another_kind(odd):
    sends = []
    for sent in both():
        vectors = np.zeros((3, 4)), odd
        if odd.shape == (3, 4):
            for pending in sent.transfer(*vectors):
                pending.wait()
        else:
            with pytest.raises(ValueError, match=r"a vector of shape \(2, 4\)"):
                sent.transfer(*vectors)
        sends.append(sent.messages[0].send.tobytes())
    assert sends[0] == sends[1]


def test_results_are_the_caller_s_own():
    """The kernels reuse an array only if nobody else holds it, or a part of it."""
    (sent, _) = both((1,), shape=(6,))
    kept = []
    for t in range(20):
        (pending,) = sent.transfer(np.full(6, float(t)))
        mixed = pending.wait()
        kept.append((mixed if t % 3 else mixed[1:3], mixed.copy() if t % 3 else mixed[1:3].copy()))
        if t % 4 == 0:
            mixed.flags.writeable = False
    for array, then in kept:
        np.testing.assert_array_equal(array, then)
    del mixed, array, kept, then
    (pending,) = sent.transfer(np.zeros(6))
    assert pending.wait().flags.writeable


def test_a_transfer_that_is_timed():
    for sent in both(counts=(1,)):
        stamps = np.zeros(100, dtype=np.int64)
        stamps[0] = 1
        sent.transfer.watch(stamps, 7, 8)
        (pending,) = sent.transfer(np.ones((3, 4)))
        pending.wait()
        assert stamps[0] == 9
        assert stamps[1:9:2].tolist() == [7, 8, 7, 8]
        assert (np.diff(stamps[2:9:2]) >= 0).all()


@pytest.mark.parametrize("way", [kernels.C, twins], ids=["compiled", "twin"])
def test_mix_has_a_transfer_for_each_number_of_vectors(way):
    made = []

    def make(layer, vectors):
        made.append(len(vectors))
        return Sent(way, (len(vectors),)).transfer

    mix = way.Mix(way.NodeCounters(), make)
    z = np.ones((3, 4))
    (one,) = mix(z)
    with pytest.raises(RuntimeError, match="never waited for"):
        mix(z, z)
    one.wait()
    for pending in mix(z, z):
        pending.wait()
    mix(z)[0].wait()
    assert made == [1, 2]


@pytest.mark.parametrize("way", [kernels.C, twins], ids=["compiled", "twin"])
def test_mix_has_a_transfer_for_each_tuple_of_shapes(way):
    made = []

    def make(layer, vectors):
        made.append(tuple(vector.shape for vector in vectors))
        return Sent(way, (len(vectors),), shape=vectors[0].shape).transfer

    mix = way.Mix(way.NodeCounters(), make)
    wide, narrow = np.ones((3, 4)), np.ones((3, 1))
    for _ in range(3):
        assert mix(wide)[0].wait().shape == (3, 4)
        assert mix(narrow)[0].wait().shape == (3, 1)
        for pending in mix(wide, wide):
            pending.wait()
    assert made == [((3, 4),), ((3, 1),), ((3, 4), (3, 4))]


@pytest.mark.parametrize("way", [kernels.C, twins], ids=["compiled", "twin"])
@pytest.mark.parametrize("turns", [None, lambda t: t * t % 3], ids=["in turn", "drawn"])
def test_mix_has_a_transfer_for_each_layer(way, turns):
    made, sent = [], {}

    def make(layer, vectors):
        made.append(layer)
        sent[layer] = Sent(way, (len(vectors),))
        return sent[layer].transfer

    node = way.NodeCounters()
    mix = way.Mix(node, make, 3, turns)
    for t in range(7):
        node.iteration = t
        mix(np.ones((3, 4)))[0].wait()
    expected = [(turns or (lambda t: (t - 1) % 3))(t) for t in range(7)]
    assert made == list(dict.fromkeys(expected))
    for layer, each in sent.items():
        assert each.transfer.calls == expected.count(layer)


def test_a_layer_that_does_not_exist():
    for layers, turns in ((2, lambda t: 2), (2, lambda t: -1), (2, str)):
        mix = kernels.C.Mix(kernels.C.NodeCounters(), None, layers, turns)
        with pytest.raises((ValueError, TypeError), match=r"no such layer|int"):
            mix(np.ones((3, 4)))
    with pytest.raises(ValueError, match="one layer or more"):
        kernels.C.Mix(kernels.C.NodeCounters(), None, 0)


@pytest.mark.parametrize("counts", [(3,), (1, 1, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_each_vector_has_its_weights_and_the_last_ones_repeat(counts, dtype):
    vectors = np.random.default_rng(0).standard_normal((3, 3, 4)).astype(dtype)
    results = []
    for sent in both(counts, dtype=dtype, kinds=2):
        pending = sent.transfer(*vectors)
        results.append([each.wait().tobytes() for each in pending])
        received = [each for message in sent.messages for each in message.received]
        for index, (theirs, own) in enumerate(zip(received, vectors, strict=True)):
            add = twins.WeightedSum(sent.weights[min(index, 1)], 2, own.size)
            assert add(theirs, own).tobytes() == results[-1][index]
    assert results[0] == results[1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_message_of_vectors_of_several_shapes(dtype):
    message = Message(2, [(3, 5), (3, 1), (2, 2)], np.dtype(dtype))
    vectors = tuple(
        np.random.default_rng(0).random(slot.shape).astype(dtype) for slot in message.slots
    )
    message.fill(7, 9, vectors)
    message.receive[:] = message.send
    for vector, received in zip(vectors, message.received, strict=True):
        for row in received:
            np.testing.assert_array_equal(row, vector.reshape(-1))
    assert message.headers.tolist() == [[7, 9]] * 2


def test_buffers_that_do_not_fit_are_refused():
    node, weights = kernels.C.NodeCounters(), np.ones((1, 3))
    header, headers = np.zeros(2, np.int64), np.zeros((2, 2), np.int64)
    slot, received = np.zeros((1, 4)), np.zeros((2, 4))

    def make(message=(header, headers, (slot,), (received,)), weights=weights, place=1):
        nothing = int
        return kernels.C.Transfer(node, None, (message,), weights, place, 0, nothing, None, nothing)

    make()
    with pytest.raises(TypeError, match="takes 1 vectors"):
        make()(slot, slot)
    for message in (
        (header[:1], headers, (slot,), (received,)),
        (header, headers[:1], (slot,), (received,)),
        (header, headers[:, ::-1], (slot,), (received,)),
        (header, headers.astype(object), (slot,), (received,)),
        (header, headers, (slot,), (received.astype(">f8"),)),
        (header, headers, (slot,), (received[:1],)),
        (header, headers, (slot,), (received[:, :3],)),
        (header, headers, (slot.astype(np.float32),), (received,)),
        (header, headers, (slot,), (received.T.copy().T,)),
        (header, headers, (slot, slot), (received,)),
        (header, headers, (), ()),
    ):
        with pytest.raises(ValueError, match=r"do not match|at least one vector"):
            make(message)
    for wrong in (
        {"weights": np.ones((1, 3), int)},
        {"weights": np.ones(3)},
        {"place": 3},
        {"place": -1},
    ):
        with pytest.raises(ValueError, match="weights"):
            make(**wrong)
    with pytest.raises(ValueError, match="no such vector"):
        kernels.C.PendingMix(make(), 1)


@pytest.mark.parametrize("counts", [(2,), (1, 1)])
@pytest.mark.parametrize("blocking", [False, True])
def test_the_same_vectors_apart(counts, blocking):
    vectors = np.random.default_rng(0).standard_normal((2, 3, 4))
    for sent in both(counts, blocking=blocking):
        sent.transfer(*vectors)
        received = [each for message in sent.messages for each in message.received]
        for index in (1, 0):
            rows = sent.transfer.receive(index)
            np.testing.assert_array_equal(rows, received[index])
            assert rows.flags.owndata
            assert rows.flags.writeable
        assert len(sent.calls) == 1 + (0 if blocking else len(counts))
        with pytest.raises(RuntimeError, match="waited for already"):
            sent.transfer.receive(0)
    for wrong in (2, -1):
        with pytest.raises(ValueError, match="no such vector"):
            both(counts)[0].transfer.receive(wrong)
