"""Messages to and from all neighbours, and the interface of the exchanges that move them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
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

    def silent(self, iteration: int) -> list[int]:
        """Return the sources whose messages of this iteration are not in the receive buffers.

        The watchdog asks from its thread, while messages may still be arriving.
        """
        received = [self.received_iterations(index) for index in range(len(self.messages))]
        stale = np.any([each != iteration for each in received], axis=0)
        return [j for j, late in zip(self.sources, stale, strict=True) if late]

    def received_iterations(self, index: int) -> Array:
        """Return the iteration in each source's header of message `index`."""
        return self.messages[index].headers[:, 0].copy()

    def free(self) -> None:  # noqa: B027 (most exchanges hold nothing to free)
        """Free the MPI objects of this exchange."""
