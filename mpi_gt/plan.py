"""Mixing a given number of vectors: buffers and requests made once, one exchange a call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .exchange import Message
from .graphs import Row

if TYPE_CHECKING:
    from .node import Node

Array = NDArray[Any]


def add_in_order(rows: Array, total: Array) -> None:
    """The sum of the rows, the first one first, entry by entry.

    numpy's reduction is that, but for a single column, which it would add up pairwise.
    """
    if rows.shape[1] == 1:
        total[:] = np.add.accumulate(rows, axis=0)[-1]
    else:
        np.add.reduce(rows, axis=0, out=total)


class Combine:
    """sum_j A_ij z_j, added up in ascending rank order, the own vector in its place.

    The one place where received numbers are added, so the bits depend neither on the exchange
    nor on the MPI library. Long vectors are taken in pieces that stay in the cache.
    """

    PIECE = 4096

    def __init__(self, row: Row, length: int, dtype: np.dtype[Any]) -> None:
        self._before = sum(neighbour < row.node for neighbour in row.neighbours)
        weights = row.weights.astype(dtype)[:, np.newaxis]
        self._weights = weights[: self._before], dtype.type(row.own), weights[self._before :]
        self._length = length
        self._terms = np.empty((len(weights) + 1, min(length, self.PIECE)), dtype)

    def __call__(self, received: Array, own: Array) -> Array:
        total = np.empty_like(own)
        if self._length <= self.PIECE:
            self._add_up(received, own, self._terms, total)
            return total
        for begin in range(0, self._length, self.PIECE):
            piece = slice(begin, begin + self.PIECE)
            terms = self._terms[:, : len(own[piece])]
            self._add_up(received[:, piece], own[piece], terms, total[piece])
        return total

    def _add_up(self, received: Array, own: Array, terms: Array, total: Array) -> None:
        split = self._before
        before, at, after = self._weights
        np.multiply(received[:split], before, out=terms[:split])
        np.multiply(own, at, out=terms[split])
        np.multiply(received[split:], after, out=terms[split + 1 :])
        add_in_order(terms, total)


class Arrival:
    """One mixed vector of a plan, pending from `mix` until it is waited for."""

    __slots__ = ("_index", "_plan", "pending")

    def __init__(self, plan: "Plan", index: int) -> None:
        self._plan = plan
        self._index = index
        self.pending = False

    def wait(self) -> Array:
        if not self.pending:
            raise RuntimeError("this result of mix was waited for already")
        self.pending = False
        return self._plan.collect(self._index)


class Arrivals(tuple[Arrival, ...]):
    """One pending result a vector; `mix(z).wait()` also works where there is but one."""

    def wait(self) -> Array:
        (only,) = self
        return only.wait()


class Plan:
    """The buffers, the exchange and the results of mixing a given number of vectors."""

    def __init__(self, node: "Node", vectors: Sequence[Array]) -> None:
        self._node = node
        self._shape = vectors[0].shape
        dtype = vectors[0].dtype
        counts = [1] * len(vectors) if node.way.separate else [len(vectors)]
        degree = len(node.row.neighbours)
        self._messages = [Message(degree, count, self._shape, dtype) for count in counts]
        self._exchange = node.way(node.comm, self._messages)
        self._slots = [slot for message in self._messages for slot in message.slots]
        self._where = [(m, part) for m, count in enumerate(counts) for part in range(count)]
        self._combine = Combine(node.row, int(np.prod(self._shape)), dtype)
        self._arrived = [False] * len(counts)
        self._bytes = degree * sum(vector.nbytes for vector in vectors)
        self._results = Arrivals(Arrival(self, index) for index in range(len(vectors)))

    def post(self, vectors: Sequence[Array]) -> Arrivals:
        node = self._node
        for message in self._messages:
            message.header[0] = node.iteration
            message.header[1] = node.stop_at
        for slot, vector in zip(self._slots, vectors, strict=True):
            if vector.shape != self._shape:
                raise ValueError(f"mix got a vector of shape {vector.shape}, not {self._shape}")
            np.copyto(slot, vector)
        node.waits += 1
        node.waiting = self
        self._exchange.start()
        node.waiting = None
        self._arrived = [False] * len(self._messages)
        for result in self._results:
            result.pending = True
        node.bytes_sent += self._bytes
        return self._results

    def require_collected(self) -> None:
        if any(result.pending for result in self._results):
            raise RuntimeError("a result of the last mix was never waited for")

    def collect(self, index: int) -> Array:
        which, part = self._where[index]
        message = self._messages[which]
        if not self._arrived[which]:
            node = self._node
            node.waiting = self
            self._exchange.finish(which)
            node.waiting = None
            self._arrived[which] = True
            if message.headers.tobytes() != message.header.tobytes() * len(message.headers):
                node.heed(message.headers)
        return self._combine(message.received[part], message.own[part]).reshape(self._shape)

    def silent(self) -> list[int]:
        """The neighbours from which something has not come, as far as the buffers show it."""
        stamps = [self._exchange.stamps(which) for which in range(len(self._messages))]
        stale = np.any([each != self._node.iteration for each in stamps], axis=0)
        return [j for j, late in zip(self._node.row.neighbours, stale, strict=True) if late]

    def free(self) -> None:
        self._exchange.free()
