"""Transfers without MPI, for the tests of packing and summing."""

import numpy as np

from mpi_gt.comm.message import Message


class Sent:
    """A transfer to nobody: the receive buffers are filled beforehand, and calls are recorded."""

    def __init__(
        self, way, counts=(2,), degree=4, shape=(3, 4), dtype=np.float64, blocking=False, kinds=1
    ):
        random = np.random.default_rng(degree)
        self.calls = []
        self.checked = None

        class Node(way.NodeCounters):
            def check_headers(node, headers):
                self.checked = headers.copy()

        self.node = Node()
        self.node.iteration, self.node.stop_at, self.node.waits = 5, 2**63 - 1, 0
        self.node.bytes_sent = 0
        self.messages = [Message(degree, [shape] * count, np.dtype(dtype)) for count in counts]
        for message in self.messages:
            for received in message.received:
                received[:] = random.standard_normal(received.shape)
            message.headers[:] = 5, 2**63 - 1
        self.weights = weights = random.random((kinds, degree + 1)).astype(dtype)
        buffers = tuple((m.header, m.headers, m.slots, m.received) for m in self.messages)
        finish = None if blocking else lambda which: self.note("finish", which)
        self.transfer = way.Transfer(
            self.node, self, buffers, weights, degree // 2, 99,
            lambda: self.note("start"), finish, self.fill,
        )  # fmt: skip
        self.transfer.results = tuple(way.PendingMix(self.transfer, i) for i in range(sum(counts)))

    def note(self, *what):
        assert self.node.waiting is self
        self.calls.append(what)

    def fill(self, *vectors):
        vectors = iter(vectors)
        for message in self.messages:
            mine = tuple(next(vectors) for _ in message.slots)
            message.fill(self.node.iteration, self.node.stop_at, mine)
