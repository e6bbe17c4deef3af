"""The exchanges: one small class for each way to swap messages with all neighbours.

Every exchange fills the same receive buffers, so the numbers of a run do not depend on the exchange
that is chosen. Buffers and requests are made once, before the first exchange.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ..graphs.network import LayerRow
from ..kernels import C
from .message import Exchange, Message
from .shared import Shared

Array = NDArray[Any]


class Neighbor(Exchange):
    """One blocking MPI_Neighbor_allgather."""

    blocking = True

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message], row: LayerRow) -> None:
        super().__init__(comm, messages, row)
        (message,), ((send, receive),) = messages, self.buffers
        # partial, not a method: the call goes to mpi4py without a Python frame in between
        self.start = partial(comm.Neighbor_allgather, send, receive)
        if C is not None:
            with suppress(LookupError):  # the call goes to MPI without mpi4py in between
                self.start = C.Collective(
                    MPI.__file__,
                    "MPI_Neighbor_allgather",
                    message.send,
                    message.receive,
                    MPI._handleof(MPI.INT64_T),
                    MPI._handleof(comm),
                    _fail,
                )

    def finish(self, index: int) -> None:
        pass


def _fail(code: int) -> None:
    """Raise the exception of an error code of MPI."""
    raise MPI.Exception(code)


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
