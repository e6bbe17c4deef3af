"""The ways to swap a message with every neighbour, one small class each.

All of them fill the same receive buffers, so what is computed from these does not depend on
the way that was chosen. Buffers and requests are made once, before the first exchange.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Array = NDArray[Any]

HEADER_WORDS = 2  # the sender's iteration, and the iteration to stop at


class Message:
    """The buffers of one message: a header and some vectors, to and from every neighbour."""

    def __init__(
        self, neighbours: int, vectors: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        length = int(np.prod(shape))
        payload = -(-vectors * length * dtype.itemsize // 8)  # in words, rounded up
        self.send: Array = np.zeros(HEADER_WORDS + payload, dtype=np.int64)
        self.receive: Array = np.zeros((neighbours, HEADER_WORDS + payload), dtype=np.int64)
        self.header = self.send[:HEADER_WORDS]
        self.headers = self.receive[:, :HEADER_WORDS]
        ours = self.send[HEADER_WORDS:].view(dtype)
        theirs = self.receive[:, HEADER_WORDS:].view(dtype)
        parts = [slice(i * length, (i + 1) * length) for i in range(vectors)]
        self.slots = [ours[part].reshape(shape) for part in parts]
        """Where each vector to send goes."""
        self.own = [ours[part] for part in parts]
        self.received = [theirs[:, part] for part in parts]
        """Each vector as it came from every neighbour, one row a neighbour, in rank order."""


class Exchange(ABC):
    """Sends `message.send` to every neighbour and fills `message.receive`."""

    separate: ClassVar[bool] = False
    """Whether each vector travels in a message of its own."""

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message]) -> None:
        self.comm = comm
        self.buffers = [
            ([message.send, MPI.INT64_T], [message.receive, MPI.INT64_T]) for message in messages
        ]

    @abstractmethod
    def start(self) -> None:
        """Post all messages; the send buffers are in use until they are finished."""

    @abstractmethod
    def finish(self, index: int) -> None:
        """Return when message `index` has come from every neighbour."""

    def free(self) -> None:  # noqa: B027 (most ways hold nothing to free)
        """Give back what MPI holds for this exchange."""


class Neighbor(Exchange):
    """One blocking MPI_Neighbor_allgather."""

    def start(self) -> None:
        for send, receive in self.buffers:
            self.comm.Neighbor_allgather(send, receive)

    def finish(self, index: int) -> None:
        pass


class Persistent(Exchange):
    """MPI_Neighbor_allgather_init once, then only start and wait."""

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message]) -> None:
        super().__init__(comm, messages)
        self.requests = [
            comm.Neighbor_allgather_init(send, receive) for send, receive in self.buffers
        ]

    def start(self) -> None:
        for request in self.requests:
            request.Start()

    def finish(self, index: int) -> None:
        self.requests[index].Wait()

    def free(self) -> None:
        for request in self.requests:
            request.Free()


EXCHANGES: dict[str, type[Exchange]] = {
    "neighbor": Neighbor,
    "persistent": Persistent,
}
