"""Plans: buffers and requests for mixing vectors of given shapes, made once and used per call."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import PendingMix, Transfer
from .base import weights_in_order
from .exchange import Message

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
        self, transfer: Transfer, index: int, neighbours: Sequence[int], shape: tuple[int, ...]
    ) -> None:
        self._transfer = transfer
        self._index = index
        self._neighbours = neighbours
        self._shape = shape

    def wait(self) -> dict[int, Array]:
        rows = self._transfer.receive(self._index)
        return {j: row.reshape(self._shape) for j, row in zip(self._neighbours, rows, strict=True)}


class PendingEaches(tuple[PendingEach, ...]):
    """One pending result per vector; with a single vector, `mix.each(z).wait()` works as well."""

    def wait(self) -> dict[int, Array]:
        (only,) = self
        return only.wait()


class Plan:
    """The messages, the exchange and the transfer for mixing vectors of given shapes."""

    def __init__(self, node: "Node", vectors: Sequence[Array]) -> None:
        if not 1 <= len(vectors) <= MOST_VECTORS:
            raise ValueError(f"mix takes 1 to {MOST_VECTORS} vectors, not {len(vectors)}")
        self._node = node
        dtype = vectors[0].dtype
        if dtype not in (np.float64, np.float32):
            raise TypeError(f"mix takes vectors of float64 or float32, not of {dtype}")
        counts = [1] * len(vectors) if node.exchange_class.separate else [len(vectors)]
        degree = len(node.row.neighbours)
        slices = [slice(start, start + counts[0]) for start in range(0, len(vectors), counts[0])]
        shapes = [vector.shape for vector in vectors]
        self._messages = [Message(degree, shapes[own], dtype) for own in slices]
        self._exchange = node.exchange_class(node.graph_comm, self._messages)
        self._slices = list(zip(self._messages, slices, strict=True))
        start, finish = self._calls()
        self.transfer = Transfer(
            node,
            self,
            tuple((m.header, m.headers, m.slots, m.received) for m in self._messages),
            *weights_in_order(node.row, dtype),
            degree * sum(vector.size for vector in vectors) * dtype.itemsize,
            start,
            finish,
            self._fill,
        )
        results = PendingMixes(PendingMix(self.transfer, index) for index in range(len(vectors)))
        results.each = PendingEaches(
            PendingEach(self.transfer, index, node.row.neighbours, shape)
            for index, shape in enumerate(shapes)
        )
        self.transfer.results = results

    def _calls(self) -> tuple[Callable[[], object], Callable[[int], object] | None]:
        """Return the calls that start the exchange and that finish one of its messages.

        The second is None for a blocking exchange. TimedPlan wraps both.
        """
        exchange = self._exchange
        return exchange.start, None if exchange.blocking else exchange.finish

    def _fill(self, *vectors: Array) -> None:
        """Pack vectors of any dtype and memory layout; the kernels pack plain arrays themselves."""
        for message, own in self._slices:
            message.fill(self._node.iteration, self._node.stop_at, vectors[own])

    def silent(self) -> list[int]:
        """Return the neighbours whose message of this iteration is not in the receive buffers."""
        received = [
            self._exchange.received_iterations(index) for index in range(len(self._messages))
        ]
        stale = np.any([each != self._node.iteration for each in received], axis=0)
        return [j for j, late in zip(self._node.row.neighbours, stale, strict=True) if late]

    def free(self) -> None:
        self._exchange.free()
