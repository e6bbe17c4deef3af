"""Transfers that use two sets of buffers in turn, as in shared memory."""

import numpy as np
import pytest
from transfers import Sent

from mpi_gt import kernels
from mpi_gt.kernels import reference as twins

pytestmark = pytest.mark.usefixtures("kernels_built")


def test_two_sets_of_buffers_are_used_in_turn():
    """Rows may lie anywhere: here each in an array of its own, as in shared memory."""
    sent = Sent(kernels.C, (2,), degree=3)
    (first,) = sent.messages
    rows = [np.zeros_like(first.send) for _ in range(3)]
    second = first.elsewhere(np.zeros_like(first.send), rows)
    for vector in second.received:
        for number, row in enumerate(vector):
            row[:] = number
    for header in second.headers:
        header[:] = 5, 2**63 - 1
    prepared = []
    buffers = ((second.header, second.headers, second.slots, second.received),)
    sent.transfer.alternate(buffers, lambda: prepared.append(sent.node.waiting))
    with pytest.raises(RuntimeError, match="two sets of buffers already"):
        sent.transfer.alternate(buffers, None)
    x, s = np.random.default_rng(0).standard_normal((2, 3, 4))
    (alone,) = [Sent(twins, (2,), degree=3)]
    expected = [each.wait() for each in alone.transfer(x, s)]
    for _ in range(2):
        for message in (first, second):
            first.slots[0][:] = second.slots[0][:] = 0
            pending = sent.transfer(x, s)
            np.testing.assert_array_equal(message.slots[0], x)
            assert np.any(first.slots[0] != second.slots[0])
            results = [each.wait() for each in pending]
            if message is first:
                np.testing.assert_array_equal(results, expected)
    sent.transfer(x, s)  # the first set
    sent.transfer.receive(0), sent.transfer.receive(1)
    sent.transfer(x, s)
    np.testing.assert_array_equal(sent.transfer.receive(1), np.arange(3)[:, None] + np.zeros(12))
    assert prepared == [sent] * 6
    assert sent.checked is None
    second.headers[1][1] = 7
    sent.transfer(x, s)
    sent.transfer.receive(0)
    sent.transfer(x, s)
    sent.transfer.receive(0)
    np.testing.assert_array_equal(sent.checked, second.headers)


@pytest.mark.parametrize("bad", ["too few", "too long", "dtype", "vectors"])
def test_other_buffers_that_do_not_match_are_refused(bad):
    sent = Sent(kernels.C, (1,), degree=2, shape=(4,))
    (message,) = sent.messages
    rows = [np.zeros_like(message.send) for _ in range(2)]
    other = message.elsewhere(np.zeros_like(message.send), rows)
    slots, received = other.slots, other.received
    if bad == "too few":
        received = (received[0][:1],)
    elif bad == "too long":
        received = ([np.zeros(5), np.zeros(4)],)
    elif bad == "dtype":
        received = ([np.zeros(4, np.float32)] * 2,)
    else:
        slots, received = slots * 2, received * 2
    with pytest.raises(ValueError, match=r"do not match|another number of vectors"):
        sent.transfer.alternate(((other.header, other.headers, slots, received),), None)
    (pending,) = sent.transfer(np.zeros(4))
    pending.wait()
