"""The ways to swap a message with every neighbour, one small class each.

All of them fill the same receive buffers, so what is computed from these does not depend on
the way that was chosen. Buffers and requests are made once, before the first exchange.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
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
        self.slots = tuple(ours[part].reshape(shape) for part in parts)
        """Where each vector to send goes."""
        self.received = tuple(theirs[:, part] for part in parts)
        """Each vector as it came from every neighbour, one row a neighbour, in rank order."""

    def fill(self, iteration: int, stop_at: int, vectors: tuple[Array, ...]) -> None:
        """Fill the send buffer: from then on the vectors are their owner's again."""
        self.header[:] = iteration, stop_at
        for slot, vector in zip(self.slots, vectors, strict=True):
            if vector.shape != slot.shape:
                raise ValueError(f"mix got a vector of shape {vector.shape}, not {slot.shape}")
            np.copyto(slot, vector)


class Exchange(ABC):
    """Sends `message.send` to every neighbour and fills `message.receive`."""

    separate: ClassVar[bool] = False
    """Whether each vector travels in a message of its own."""
    blocking: ClassVar[bool] = False
    """Whether all has come when `start` returns, so that `finish` need not be called."""
    to_all: ClassVar[bool] = False
    """Whether a message goes to every node, not to the neighbours only."""

    start: Callable[[], object]
    """Post all messages; the send buffers are in use until they are finished."""

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message]) -> None:
        self.comm = comm
        self.messages = messages
        self.buffers = [
            ((MPI.buffer(message.send), MPI.INT64_T), (MPI.buffer(message.receive), MPI.INT64_T))
            for message in messages
        ]

    @abstractmethod
    def finish(self, index: int) -> None:
        """Return when message `index` has come from every neighbour."""

    def stamps(self, index: int) -> Array:
        """The iterations of what has come from each neighbour, while it may still be coming."""
        return self.messages[index].headers[:, 0].copy()

    def free(self) -> None:  # noqa: B027 (most ways hold nothing to free)
        """Give back what MPI holds for this exchange."""


class Neighbor(Exchange):
    """One blocking MPI_Neighbor_allgather."""

    blocking = True

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message]) -> None:
        super().__init__(comm, messages)
        ((send, receive),) = self.buffers
        self.start = partial(comm.Neighbor_allgather, send, receive)  # no frame of Python's

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


class Nonblocking(Exchange):
    """One MPI_Ineighbor_allgather a vector: what is not needed yet travels during the gradient."""

    separate = True

    def start(self) -> None:
        self.requests = [
            self.comm.Ineighbor_allgather(send, receive) for send, receive in self.buffers
        ]

    def finish(self, index: int) -> None:
        self.requests[index].Wait()


class PointToPoint(Exchange):
    """MPI_Isend to and MPI_Irecv from each neighbour."""

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message]) -> None:
        super().__init__(comm, messages)
        (self.message,) = messages
        self.neighbours = neighbours_of(comm)

    def start(self) -> None:
        send, receive = self.message.send, self.message.receive
        pairs = list(enumerate(self.neighbours))
        self.requests = [self.comm.Irecv(receive[row], source=source) for row, source in pairs]
        self.requests += [self.comm.Isend(send, dest=target) for target in self.neighbours]

    def finish(self, index: int) -> None:
        MPI.Request.Waitall(self.requests)


class PersistentPointToPoint(PointToPoint):
    """MPI_Send_init and MPI_Recv_init once, then only start and wait."""

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message]) -> None:
        super().__init__(comm, messages)
        send, receive = self.message.send, self.message.receive
        pairs = list(enumerate(self.neighbours))
        self.persistent = [comm.Recv_init(receive[row], source=source) for row, source in pairs]
        self.persistent += [comm.Send_init(send, dest=target) for target in self.neighbours]

    def start(self) -> None:
        MPI.Prequest.Startall(self.persistent)

    def finish(self, index: int) -> None:
        MPI.Request.Waitall(self.persistent)

    def free(self) -> None:
        for request in self.persistent:
            request.Free()


class RemoteMemory(Exchange):
    """MPI_Put into the neighbours' windows, with post-start-complete-wait among neighbours only."""

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message]) -> None:
        super().__init__(comm, messages)
        (self.message,) = messages
        self.neighbours = neighbours_of(comm)
        rows = np.arange(len(self.neighbours), dtype=np.int64)
        places = np.empty_like(rows)  # which row of each neighbour's buffer is ours
        comm.Neighbor_alltoall(rows, places)
        words = self.message.send.size
        self.targets = [
            (neighbour, (int(place) * words, words, MPI.INT64_T))
            for neighbour, place in zip(self.neighbours, places, strict=True)
        ]
        self.window = MPI.Win.Create(self.message.receive, disp_unit=8, comm=comm)
        everyone = comm.Get_group()
        self.group = everyone.Incl(self.neighbours)
        everyone.Free()

    def start(self) -> None:
        self.window.Post(self.group)
        self.window.Start(self.group)
        for neighbour, target in self.targets:
            self.window.Put([self.message.send, MPI.INT64_T], neighbour, target)
        self.window.Complete()

    def finish(self, index: int) -> None:
        self.window.Wait()

    def free(self) -> None:
        self.window.Free()
        self.group.Free()


class Allgather(Exchange):
    """The naive way: everybody's message to everybody, of which the neighbours' are kept."""

    blocking = True
    to_all = True

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message]) -> None:
        super().__init__(comm, messages)
        (self.message,) = messages
        self.neighbours = neighbours_of(comm)
        self.everyone = np.zeros((comm.size, self.message.send.size), dtype=np.int64)

    def start(self) -> None:
        self.comm.Allgather([self.message.send, MPI.INT64_T], [self.everyone, MPI.INT64_T])
        self.message.receive[:] = self.everyone[self.neighbours]

    def finish(self, index: int) -> None:
        pass

    def stamps(self, index: int) -> Array:
        return self.everyone[self.neighbours, 0]


class Pickle(Exchange):
    """Python objects, as most Python packages send them: here to be measured, not to be used."""

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message]) -> None:
        super().__init__(comm, messages)
        (self.message,) = messages
        self.neighbours = neighbours_of(comm)

    def start(self) -> None:
        self.requests = [self.comm.isend(self.message.send, target) for target in self.neighbours]

    def finish(self, index: int) -> None:
        for row, source in enumerate(self.neighbours):
            self.message.receive[row] = self.comm.recv(source=source)
        MPI.Request.waitall(self.requests)


def neighbours_of(comm: MPI.Distgraphcomm) -> list[int]:
    sources, _, _ = comm.Get_dist_neighbors()
    return list(sources)


EXCHANGES: dict[str, type[Exchange]] = {
    "neighbor": Neighbor,
    "persistent": Persistent,
    "nonblocking": Nonblocking,
    "p2p": PointToPoint,
    "persistent-p2p": PersistentPointToPoint,
    "rma": RemoteMemory,
    "allgather": Allgather,
    "pickle": Pickle,
}
