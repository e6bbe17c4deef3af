"""The exchanges: one small class for each way to swap messages with all neighbours.

Every exchange fills the same receive buffers, so the numbers of a run do not depend on the exchange
that is chosen. Buffers and requests are made once, before the first exchange.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ..graphs.network import LayerRow

Array = NDArray[Any]

HEADER_WORDS = 2  # the sender's iteration and its `stop_at`, see NodeCounters


class Message:
    """The buffers of one message to all targets and from all sources: a header and vectors."""

    def __init__(
        self, sources: int, shapes: Sequence[tuple[int, ...]], dtype: np.dtype[Any]
    ) -> None:
        self._shapes, self._dtype = shapes, dtype
        ends = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).tolist()
        payload = -(-ends[-1] * dtype.itemsize // 8)  # in words, rounded up
        self._pieces = [slice(begin, end) for begin, end in pairwise(ends)]
        self._send_from(np.zeros(HEADER_WORDS + payload, dtype=np.int64))
        self.receive: Any = np.zeros((sources, HEADER_WORDS + payload), dtype=np.int64)
        self.headers: Any = self.receive[:, :HEADER_WORDS]
        theirs = self.receive[:, HEADER_WORDS:].view(dtype)
        self.received: tuple[Any, ...] = tuple(theirs[:, piece] for piece in self._pieces)
        """Each vector as received: one row per source, in rank order."""

    def _send_from(self, send: Array) -> None:
        self.send = send
        self.header = send[:HEADER_WORDS]
        ours = send[HEADER_WORDS:].view(self._dtype)
        self.slots = tuple(
            ours[piece].reshape(shape)
            for piece, shape in zip(self._pieces, self._shapes, strict=True)
        )
        """The piece of the send buffer for each vector."""

    def elsewhere(self, send: Array, rows: Sequence[Array]) -> "Message":
        """Return the same message in other memory, with a row from anywhere per source."""
        other = copy(self)
        other._send_from(send)
        other.receive = rows
        other.headers = [row[:HEADER_WORDS] for row in rows]
        theirs = [row[HEADER_WORDS:].view(self._dtype) for row in rows]
        other.received = tuple([row[piece] for row in theirs] for piece in self._pieces)
        return other

    def fill(self, iteration: int, stop_at: int, vectors: tuple[Array, ...]) -> None:
        """Copy header and vectors into the send buffer; the caller may then change the vectors."""
        self.header[:] = iteration, stop_at
        for slot, vector in zip(self.slots, vectors, strict=True):
            if vector.shape != slot.shape:
                raise ValueError(f"mix got a vector of shape {vector.shape}, not {slot.shape}")
            np.copyto(slot, vector)


class Exchange(ABC):
    """Base class: sends `message.send` to every target and fills `message.receive`.

    `row` is the node's part of the layer that the communicator `comm` has as its topology.
    """

    separate: ClassVar[bool] = False
    """True if each vector travels in a message of its own."""
    blocking: ClassVar[bool] = False
    """True if all messages have arrived when `start` returns: `finish` need not be called then."""
    to_all: ClassVar[bool] = False
    """True if a message goes to every rank, not to the neighbours only."""
    needs: ClassVar[str] = ""
    """The call that libraries of an older MPI standard lack, with the standard that has it."""

    start: Callable[[], object]
    """Starts sending all messages; the send buffers are in use until `finish`."""

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message], row: LayerRow) -> None:
        self.comm = comm
        self.messages = messages
        self.sources, self.targets = row.sources, row.targets
        self.buffers = [
            ((MPI.buffer(message.send), MPI.INT64_T), (MPI.buffer(message.receive), MPI.INT64_T))
            for message in messages
        ]

    @abstractmethod
    def finish(self, index: int) -> None:
        """Wait until message `index` has arrived from every source."""

    def in_place(self) -> tuple[list[Sequence[Message]], Callable[[], object] | None]:
        """Return the messages whose buffers a transfer is to use: one set, or two sets in turn.

        With two, the function that must be called before the buffers are filled, if there is one.
        """
        return [self.messages], None

    def outgoing(self) -> Sequence[Message]:
        """Return the messages that the next start sends."""
        return self.messages

    def received_iterations(self, index: int) -> Array:
        """Return the iteration in each source's header of message `index`.

        The watchdog reads it from its thread, while messages may still be arriving.
        """
        return self.messages[index].headers[:, 0].copy()

    def free(self) -> None:  # noqa: B027 (most exchanges hold nothing to free)
        """Free the MPI objects of this exchange."""


class Neighbor(Exchange):
    """One blocking MPI_Neighbor_allgather."""

    blocking = True

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message], row: LayerRow) -> None:
        super().__init__(comm, messages, row)
        ((send, receive),) = self.buffers
        # partial, not a method: the call goes to mpi4py without a Python frame in between
        self.start = partial(comm.Neighbor_allgather, send, receive)

    def finish(self, index: int) -> None:
        pass


class Persistent(Exchange):
    """MPI_Neighbor_allgather_init once, then a start and a wait per exchange."""

    needs = "MPI_Neighbor_allgather_init (of MPI 4)"

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message], row: LayerRow) -> None:
        super().__init__(comm, messages, row)
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
    """One MPI_Ineighbor_allgather per vector: the second vector travels during the gradient."""

    separate = True

    def start(self) -> None:
        self.requests = [
            self.comm.Ineighbor_allgather(send, receive) for send, receive in self.buffers
        ]

    def finish(self, index: int) -> None:
        self.requests[index].Wait()


class PointToPoint(Exchange):
    """One MPI_Isend to each target and one MPI_Irecv from each source."""

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message], row: LayerRow) -> None:
        super().__init__(comm, messages, row)
        (self.message,) = messages

    def start(self) -> None:
        send, receive = self.message.send, self.message.receive
        pairs = list(enumerate(self.sources))
        self.requests = [self.comm.Irecv(receive[row], source=source) for row, source in pairs]
        self.requests += [self.comm.Isend(send, dest=target) for target in self.targets]

    def finish(self, index: int) -> None:
        MPI.Request.Waitall(self.requests)


class PersistentPointToPoint(PointToPoint):
    """MPI_Send_init and MPI_Recv_init once, then a start and a wait per exchange."""

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message], row: LayerRow) -> None:
        super().__init__(comm, messages, row)
        send, receive = self.message.send, self.message.receive
        pairs = list(enumerate(self.sources))
        self.persistent = [comm.Recv_init(receive[row], source=source) for row, source in pairs]
        self.persistent += [comm.Send_init(send, dest=target) for target in self.targets]

    def start(self) -> None:
        MPI.Prequest.Startall(self.persistent)

    def finish(self, index: int) -> None:
        MPI.Request.Waitall(self.persistent)

    def free(self) -> None:
        for request in self.persistent:
            request.Free()


class RemoteMemory(Exchange):
    """MPI_Put into the neighbours' windows, synchronised among neighbours only.

    The calls are MPI_Win_post, _start, _complete and _wait.
    """

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message], row: LayerRow) -> None:
        super().__init__(comm, messages, row)
        (self.message,) = messages
        words = self.message.send.size
        self.puts = [
            (target, (place * words, words, MPI.INT64_T))
            for target, place in zip(row.targets, row.places, strict=True)
        ]
        self.window = MPI.Win.Create(self.message.receive, disp_unit=8, comm=comm)
        everyone = comm.Get_group()
        self.groups = [everyone.Incl(ranks) for ranks in (row.sources, row.targets)]
        everyone.Free()

    def start(self) -> None:
        sources, targets = self.groups
        self.window.Post(sources)
        self.window.Start(targets)
        for target, place in self.puts:
            self.window.Put([self.message.send, MPI.INT64_T], target, place)
        self.window.Complete()

    def finish(self, index: int) -> None:
        self.window.Wait()

    def free(self) -> None:
        self.window.Free()
        for group in self.groups:
            group.Free()


class Allgather(Exchange):
    """MPI_Allgather of all messages, of which only the neighbours' are used: the naive exchange."""

    blocking = True
    to_all = True

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message], row: LayerRow) -> None:
        super().__init__(comm, messages, row)
        (self.message,) = messages
        self.rows = list(row.sources)
        self.everyone = np.zeros((comm.size, self.message.send.size), dtype=np.int64)

    def start(self) -> None:
        self.comm.Allgather([self.message.send, MPI.INT64_T], [self.everyone, MPI.INT64_T])
        self.message.receive[:] = self.everyone[self.rows]

    def finish(self, index: int) -> None:
        pass

    def received_iterations(self, index: int) -> Array:
        return self.everyone[self.rows, 0]


class Pickle(Exchange):
    """Pickled Python objects, as most Python packages send them: made to be measured, not used."""

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message], row: LayerRow) -> None:
        super().__init__(comm, messages, row)
        (self.message,) = messages

    def start(self) -> None:
        self.requests = [self.comm.isend(self.message.send, target) for target in self.targets]

    def finish(self, index: int) -> None:
        for row, source in enumerate(self.sources):
            self.message.receive[row] = self.comm.recv(source=source)
        MPI.Request.waitall(self.requests)


from .shared import Shared  # noqa: E402 (it is made of the classes above)

EXCHANGES: dict[str, type[Exchange]] = {
    "neighbor": Neighbor,
    "persistent": Persistent,
    "nonblocking": Nonblocking,
    "p2p": PointToPoint,
    "persistent-p2p": PersistentPointToPoint,
    "rma": RemoteMemory,
    "allgather": Allgather,
    "pickle": Pickle,
    "shared": Shared,
}
