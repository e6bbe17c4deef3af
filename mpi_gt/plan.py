"""Mixing a given number of vectors: buffers and requests made once, one exchange a call."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import kernels
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
    nor on the MPI library, nor on the kernels. Long vectors are taken in pieces that stay in
    the cache.
    """

    PIECE = 4096

    def __init__(self, row: Row, length: int, dtype: np.dtype[Any]) -> None:
        self._place = sum(neighbour < row.node for neighbour in row.neighbours)
        self._weights = np.insert(row.weights, self._place, row.own).astype(dtype)
        self._length = length
        self._terms = np.empty((len(self._weights), min(length, self.PIECE)), dtype)

    def __call__(self, received: Array, own: Array) -> Array:
        """The sum, as a new array of own's shape."""
        return self.of(received, own)()

    def of(self, received: Array, own: Array) -> Callable[[], Array]:
        """What gives the sum of whatever these buffers hold when it is called."""
        if kernels.C is not None:
            return partial(kernels.C.combine, received, own, self._weights, self._place)
        return partial(self._by_numpy, received, own)

    def _by_numpy(self, received: Array, own: Array) -> Array:
        flat, total = own.reshape(-1), np.empty(self._length, own.dtype)
        for begin in range(0, self._length, self.PIECE):
            piece = slice(begin, begin + self.PIECE)
            terms = self._terms[:, : len(flat[piece])]
            self._add_up(received[:, piece], flat[piece], terms, total[piece])
        return total.reshape(own.shape)

    def _add_up(self, received: Array, own: Array, terms: Array, total: Array) -> None:
        place, weights = self._place, self._weights[:, np.newaxis]
        np.multiply(received[:place], weights[:place], out=terms[:place])
        np.multiply(own, weights[place], out=terms[place])
        np.multiply(received[place:], weights[place + 1 :], out=terms[place + 1 :])
        add_in_order(terms, total)


class Arrival:
    """One mixed vector of a plan, pending from `mix` until `wait()`, which gives it."""

    __slots__ = ("wait",)

    def __init__(self, wait: Callable[[], Array]) -> None:
        self.wait = wait


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
        starts = range(0, len(vectors), counts[0])
        self._shares = [
            (message, slice(start, start + counts[0]))
            for message, start in zip(self._messages, starts, strict=True)
        ]
        combine = Combine(node.row, int(np.prod(self._shape)), dtype)
        self._sums = [
            (which, combine.of(received, own))
            for which, message in enumerate(self._messages)
            for received, own in zip(message.received, message.slots, strict=True)
        ]
        self._arrived = [False] * len(counts)
        self._pending = 0  # a bit for each result that was not waited for yet
        self._bytes = degree * sum(vector.nbytes for vector in vectors)
        self._results = self._hand_out(self.collect)

    def _hand_out(self, collect: Callable[[int], Array]) -> Arrivals:
        return Arrivals(Arrival(partial(collect, index)) for index in range(len(self._sums)))

    def post(self, vectors: tuple[Array, ...]) -> Arrivals:
        node = self._node
        for message, share in self._shares:
            mine = vectors[share]
            if not message.pack(node.iteration, node.stop_at, mine):
                message.fill(node.iteration, node.stop_at, mine)
        node.waits += 1
        node.waiting = self
        self._exchange.start()
        node.waiting = None
        self._arrived = [False] * len(self._shares)
        self._pending = (1 << len(vectors)) - 1
        node.bytes_sent += self._bytes
        return self._results

    def require_collected(self) -> None:
        if self._pending:
            raise RuntimeError("a result of the last mix was never waited for")

    def collect(self, index: int) -> Array:
        """The mixed vector, once it has come from every neighbour."""
        if not self._pending >> index & 1:
            raise RuntimeError("this result of mix was waited for already")
        self._pending ^= 1 << index
        which, combined = self._sums[index]
        if not self._arrived[which]:
            node = self._node
            node.waiting = self
            self._exchange.finish(which)
            node.waiting = None
            self._arrived[which] = True
            message = self._messages[which]
            if not message.agrees():
                node.heed(message.headers)
        return combined()

    def silent(self) -> list[int]:
        """The neighbours from which something has not come, as far as the buffers show it."""
        stamps = [self._exchange.stamps(which) for which in range(len(self._messages))]
        stale = np.any([each != self._node.iteration for each in stamps], axis=0)
        return [j for j, late in zip(self._node.row.neighbours, stale, strict=True) if late]

    def free(self) -> None:
        self._exchange.free()
