"""Plans: buffers and requests for mixing vectors on one layer, made once and used per call."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import C, PendingMix, Transfer
from ..kernels.reference import MessageBuffers
from .base import weights_in_order
from .compression import Encoder
from .message import Message

if TYPE_CHECKING:
    from .node import Node

Array = NDArray[Any]

MOST_VECTORS = 64  # per exchange; the same number as in kernels.h


class PendingMixes(tuple[PendingMix, ...]):
    """One pending result per vector; with a single vector, `mix(z).wait()` works as well."""

    each: "PendingEaches"
    """The same results with the neighbours' vectors apart: what `mix.each(z)` returns."""

    def wait(self) -> Array:
        (only,) = self
        return only.wait()


class PendingEach:
    """The vectors of all neighbours, pending until `wait()` returns them by neighbour."""

    def __init__(
        self, transfer: Transfer, index: int, sources: Sequence[int], shape: tuple[int, ...]
    ) -> None:
        self._transfer = transfer
        self._index = index
        self._sources = sources
        self._shape = shape

    def wait(self) -> dict[int, Array]:
        rows = self._transfer.receive(self._index)
        return {j: row.reshape(self._shape) for j, row in zip(self._sources, rows, strict=True)}


class PendingEaches(tuple[PendingEach, ...]):
    """One pending result per vector; with a single vector, `mix.each(z).wait()` works as well."""

    def wait(self) -> dict[int, Array]:
        (only,) = self
        return only.wait()


class Plan:
    """The messages, the exchange and the transfer for mixing vectors of given shapes on a layer.

    `kinds` are the matrices of the vectors; the last one repeats.
    """

    def __init__(
        self, node: "Node", layer: int, vectors: Sequence[Array], kinds: Sequence[str]
    ) -> None:
        if not 1 <= len(vectors) <= MOST_VECTORS:
            raise ValueError(f"mix takes 1 to {MOST_VECTORS} vectors, not {len(vectors)}")
        self._node = node
        dtype = vectors[0].dtype
        if dtype not in (np.float64, np.float32):
            raise TypeError(f"mix takes vectors of float64 or float32, not of {dtype}")
        counts = [1] * len(vectors) if node.exchange_class.separate else [len(vectors)]
        self.row = row = node.row.layers[layer]
        degree = len(row.sources)
        slices = [slice(start, start + counts[0]) for start in range(0, len(vectors), counts[0])]
        shapes = [vector.shape for vector in vectors]
        self._messages = [self._message(degree, vectors[own], own.start) for own in slices]
        self._exchange = node.exchange_class(node.graph_comms[layer], self._messages, row)
        self._slices = slices
        sets, prepare = self._sets()
        start, finish = self._calls()
        self.payload = self._payload(vectors)
        """The bytes that go to each target, without headers and padding."""
        self.transfer = Transfer(
            node,
            self,
            tuple(self._buffers(message) for message in sets[0]),
            *weights_in_order(node.row.node, row, kinds, dtype),
            len(row.targets) * self.payload,
            start,
            finish,
            self._fill,
        )
        if C is not None and len(sets) > 1:
            other = tuple(self._buffers(message) for message in sets[1])
            C.Transfer.alternate(self.transfer, other, prepare)
        results = PendingMixes(PendingMix(self.transfer, index) for index in range(len(vectors)))
        results.each = PendingEaches(
            PendingEach(self.transfer, index, row.sources, shape)
            for index, shape in enumerate(shapes)
        )
        self.transfer.results = results

    def _message(self, degree: int, vectors: Sequence[Array], first: int) -> Message:
        """Return the buffers of a message; `first` is the number of its first vector."""
        return Message(degree, [vector.shape for vector in vectors], vectors[0].dtype)

    def _sets(self) -> tuple[list[Sequence[Message]], Callable[[], object] | None]:
        """Return one or two sets of messages, and the call before their buffers are filled."""
        return self._exchange.in_place()

    def _buffers(self, message: Message) -> MessageBuffers:
        """Return header, headers, the node's own vectors, and those of its neighbours."""
        return message.header, message.headers, message.slots, message.received

    def _payload(self, vectors: Sequence[Array]) -> int:
        """Return the bytes of one message."""
        return sum(vector.size * vectors[0].dtype.itemsize for vector in vectors)

    def _calls(self) -> tuple[Callable[[], object], Callable[[int], object] | None]:
        """Return the calls that start the exchange and that finish one of its messages.

        The second is None for a blocking exchange. TimedPlan wraps both.
        """
        exchange = self._exchange
        return exchange.start, None if exchange.blocking else exchange.finish

    def _fill(self, *vectors: Array) -> None:
        """Pack vectors of any dtype and memory layout; the kernels pack plain arrays themselves."""
        for message, own in zip(self._exchange.outgoing(), self._slices, strict=True):
            message.fill(self._node.iteration, self._node.stop_at, vectors[own])

    def silent(self) -> list[int]:
        """Return the neighbours that keep this node waiting in this iteration."""
        return self._exchange.silent(self._node.iteration)

    def free(self) -> None:
        self._exchange.free()


class CompressedPlan(Plan):
    """A plan whose messages carry payloads: vectors are encoded and decoded on the way.

    The transfer copies the vectors into arrays of this plan. Starting the exchange replaces them by
    what the neighbours will decode; finishing it decodes what has come.
    """

    def __init__(
        self,
        node: "Node",
        layer: int,
        vectors: Sequence[Array],
        kinds: Sequence[str],
        encoder: Encoder,
    ) -> None:
        self._encoder = encoder
        self._sizes = [encoder.size(vector) for vector in vectors]
        degree = len(node.row.layers[layer].sources)
        self.own = [np.zeros(vector.shape, vectors[0].dtype) for vector in vectors]
        self._theirs = [np.zeros((degree, *own.shape), own.dtype) for own in self.own]
        self._vectors: dict[int, range] = {}  # the numbers of each message's vectors
        super().__init__(node, layer, vectors, kinds)
        self._sent: list[tuple[int, Array, Array]] = []  # number, own vector, its payload
        self._came: list[list[tuple[Array, Array]]] = []  # by message: payloads, their vectors
        for message in self._messages:
            numbers = self._vectors[id(message)]
            for number, slot in zip(numbers, message.slots, strict=True):
                self._sent.append((number, self.own[number], slot[: self._sizes[number]]))
            self._came.append(
                [
                    (rows[:, : self._sizes[number]], self._theirs[number])
                    for number, rows in zip(numbers, message.received, strict=True)
                ]
            )

    def _message(self, degree: int, vectors: Sequence[Array], first: int) -> Message:
        numbers = range(first, first + len(vectors))
        words = [(-(-self._sizes[number] // 8) * 8,) for number in numbers]
        message = Message(degree, words, np.dtype(np.uint8))
        self._vectors[id(message)] = numbers
        return message

    def _sets(self) -> tuple[list[Sequence[Message]], Callable[[], object] | None]:
        return [self._messages], None  # payloads are decoded from the receive buffers

    def _buffers(self, message: Message) -> MessageBuffers:
        numbers = self._vectors[id(message)]
        degree = len(message.headers)
        theirs = tuple(self._theirs[i].reshape(degree, self.own[i].size) for i in numbers)
        return message.header, message.headers, tuple(self.own[i] for i in numbers), theirs

    def _payload(self, vectors: Sequence[Array]) -> int:
        return sum(self._sizes)

    def _calls(self) -> tuple[Callable[[], object], Callable[[int], object] | None]:
        send, await_message = self._send_calls()
        encode, decode = self._encode, self._decode

        def start() -> None:
            encode()
            send()

        def finish(index: int) -> None:
            if await_message is not None:
                await_message(index)
            decode(index)

        return start, finish

    def _send_calls(self) -> tuple[Callable[[], object], Callable[[int], object] | None]:
        """Return the calls of the exchange alone; TimedCompressedPlan wraps both."""
        return super()._calls()

    def _fill(self, *vectors: Array) -> None:
        for message in self._messages:
            message.header[:] = self._node.iteration, self._node.stop_at
        for own, vector in zip(self.own, vectors, strict=True):
            np.copyto(own, vector)

    def _encode(self) -> None:
        """Encode the vectors into the send buffers, and decode them again."""
        iteration, encoder = self._node.iteration, self._encoder
        for number, own, payload in self._sent:
            encoder.encode(iteration, number, own, payload)
            encoder.decode(payload[np.newaxis], own[np.newaxis])

    def _decode(self, index: int) -> None:
        """Decode the vectors of a message as they came from all neighbours."""
        for payloads, theirs in self._came[index]:
            self._encoder.decode(payloads, theirs)
