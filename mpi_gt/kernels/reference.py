"""The Python twins of transfer.c, mix.c, combine.c, advance.c and stamps.c.

The compiled classes do the same without Python frames: on many ranks that share a core, frames
take most of an iteration. `mpi_gt.kernels` exports the compiled ones if they exist, else these.
"""

from collections.abc import Callable, Sequence
from time import monotonic, perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MessageBuffers = tuple[Array, Array, tuple[Array, ...], tuple[Array, ...]]
"""The arrays of a Message: header, headers, slots, received."""


class NodeCounters:
    """The base class of Node: counters that messages, the watchdog and the loop read."""

    iteration: int = 0
    due: int = 0
    """The iteration after which `advance` returns."""
    stop_at: int = 0
    """The next stop or save on which the ranks agreed: see Checkpointer."""
    waits: int = 0
    """The number of times this rank has begun to wait for others."""
    bytes_sent: int = 0
    gradients: int = 0
    """Sample gradients that this node has evaluated for one seed."""
    deadline: float = 0.0
    """The time (of time.monotonic) after which `advance` returns as well; 0: there is none."""
    waiting: Any = None
    """During a wait: the Plan of an exchange, or a text that names a collective call."""


def stamp(stamps: Array, code: int) -> None:
    """Append a code and the time to the words in use; the first word counts the words in use."""
    used = stamps[0]
    stamps[used] = code
    stamps[used + 1] = perf_counter_ns()
    stamps[0] = used + 2


def add_in_order(rows: Array, total: Array) -> None:
    """Add up the rows into `total`, starting with the first row.

    numpy's reduction does that, except for a single column, which it would add up pairwise.
    """
    if rows.shape[1] == 1:
        total[:] = np.add.accumulate(rows, axis=0)[-1]
    else:
        np.add.reduce(rows, axis=0, out=total)


class WeightedSum:
    """The sum over j of A_ij z_j in ascending rank order, this node's own vector included.

    Received numbers are added here only (and in its twin combine.c), so the bits depend neither on
    the exchange nor on the MPI library. Long vectors are added in pieces that stay in the cache.
    """

    PIECE = 4096

    def __init__(self, weights: Array, place: int, length: int) -> None:
        self._weights = weights[:, np.newaxis]
        self._place = place
        self._terms = np.empty((len(weights), min(length, self.PIECE)), weights.dtype)

    def __call__(self, received: Array, own: Array) -> Array:
        """Return the sum as a new array of the shape of `own`."""
        flat, total = own.reshape(-1), np.empty(own.size, own.dtype)
        for begin in range(0, own.size, self.PIECE):
            piece = slice(begin, begin + self.PIECE)
            terms = self._terms[:, : len(flat[piece])]
            self._add_up(received[:, piece], flat[piece], terms, total[piece])
        return total.reshape(own.shape)

    def _add_up(self, received: Array, own: Array, terms: Array, total: Array) -> None:
        place, weights = self._place, self._weights
        np.multiply(received[:place], weights[:place], out=terms[:place])
        np.multiply(own, weights[place], out=terms[place])
        np.multiply(received[place:], weights[place + 1 :], out=terms[place + 1 :])
        add_in_order(terms, total)


class Transfer:
    """A planned exchange of a given number of vectors with the neighbours.

    A call sends the vectors and returns `results`, which must be set before the first call. Of the
    `weights`, (vectors, terms), the last row also serves the vectors after it.
    """

    def __init__(
        self,
        node: Any,
        plan: Any,
        messages: Sequence[MessageBuffers],
        weights: Array,
        place: int,
        bytes: int,
        start: Callable[[], object],
        finish: Callable[[int], object] | None,
        fill: Callable[..., None],
    ) -> None:
        self._node = node
        self._plan = plan
        self._messages = messages
        self._parts = [
            (message, received, own)
            for message, (_, _, slots, theirs) in enumerate(messages)
            for own, received in zip(slots, theirs, strict=True)
        ]
        self._sums = [
            WeightedSum(weights[min(index, len(weights) - 1)], place, own.size)
            for index, (_, _, own) in enumerate(self._parts)
        ]
        self._bytes = bytes
        self._start = start
        self._finish = finish
        self._fill = fill
        self._stamps: tuple[Array, int, int] | None = None
        self._arrived = [False] * len(messages)
        self.pending = 0  # one bit per result that was not waited for yet
        self.calls = 0
        self.results: Any = None

    def watch(self, stamps: Array, before: int, after: int) -> None:
        """From now on, stamp the time when packing and adding up begin and when they end."""
        self._stamps = stamps, before, after

    def __call__(self, *vectors: Array) -> Any:
        self._stamp(is_end=False)
        self._fill(*vectors)
        node = self._node
        node.waits += 1
        node.waiting = self._plan
        self._start()
        node.waiting = None
        self._arrived = [False] * len(self._messages)
        self.pending = (1 << len(self._parts)) - 1
        node.bytes_sent += self._bytes
        self.calls += 1
        self._stamp(is_end=True)
        return self.results

    def collect(self, index: int) -> Array:
        """Wait for vector `index` from every neighbour, and return the mixed vector."""
        received, own = self._await_vector(index)
        total = self._sums[index](received, own)
        self._stamp(is_end=True)
        return total

    def receive(self, index: int) -> Array:
        """Wait for vector `index`; return a copy of what came, one row per neighbour."""
        received, _ = self._await_vector(index)
        copy = received.copy()
        self._stamp(is_end=True)
        return copy

    def _await_vector(self, index: int) -> tuple[Array, Array]:
        """Wait for vector `index` from every neighbour; return what came, and this node's own."""
        if not self.pending >> index & 1:
            raise RuntimeError("this result of mix was waited for already")
        self.pending ^= 1 << index
        message, received, own = self._parts[index]
        self._stamp(is_end=False)
        if not self._arrived[message]:
            self._receive(message)
        return received, own

    def _receive(self, message: int) -> None:
        node = self._node
        if self._finish is not None:
            node.waiting = self._plan
            self._finish(message)
            node.waiting = None
        self._arrived[message] = True
        header, headers, _, _ = self._messages[message]
        if headers.tobytes() != header.tobytes() * len(headers):
            node.check_headers(headers)

    def _stamp(self, is_end: bool) -> None:
        if self._stamps is not None:
            stamps, before, after = self._stamps
            stamp(stamps, after if is_end else before)


class PendingMix:
    """One mixed vector, pending until `wait()` returns it."""

    def __init__(self, transfer: Transfer, index: int) -> None:
        self._transfer = transfer
        self._index = index

    def wait(self) -> Array:
        return self._transfer.collect(self._index)


class Mix:
    """The function `mix(z, ...)` of a node, with Transfers by layer and by shapes.

    `make(layer, vectors)` makes a Transfer when it is first needed. The layer of iteration t is
    turns(t), or without `turns` one after the other, from t = 1.
    """

    def __init__(
        self,
        node: Any,
        make: Callable[[int, tuple[Array, ...]], Transfer],
        layers: int = 1,
        turns: Callable[[int], int] | None = None,
    ) -> None:
        self._node = node
        self._make = make
        self._turns = turns or (lambda t: (t - 1) % layers)
        self._transfers: dict[tuple[int, tuple[tuple[int, ...], ...]], Transfer] = {}
        self._last: Transfer | None = None
        self.compressed: Any = None
        """The function `mix.compressed`, which `Node` sets."""

    def __call__(self, *vectors: Array) -> Any:
        if self._last is not None and self._last.pending:
            raise RuntimeError("a result of the last mix was never waited for")
        layer = self._turns(self._node.iteration)
        key = layer, tuple(vector.shape for vector in vectors)
        transfer = self._transfers.get(key)
        if transfer is None:
            transfer = self._transfers[key] = self._make(layer, vectors)
        self._last = transfer
        return transfer(*vectors)

    def each(self, *vectors: Array) -> Any:
        """Send the vectors in the same way; the results keep the neighbours' vectors apart."""
        return self(*vectors).each


class NextGradient:
    """The `grad` of a step: the gradient with the draws of the next iteration, and the exact one.

    Both count the sample gradients they take, `batch` and `rows`, in `node.gradients`.
    """

    def __init__(
        self,
        node: Any,
        gradient: Callable[[int, Array], Array],
        full: Callable[[Array], Array],
        batch: int,
        rows: int,
    ) -> None:
        self._node = node
        self._gradient = gradient
        self._full = full
        self._batch = batch
        self._rows = rows

    def __call__(self, x: Array) -> Array:
        self._node.gradients += self._batch
        return self._gradient(self._node.iteration + 1, x)

    def full(self, x: Array) -> Array:
        """Return the exact gradient of this node's f_i at x."""
        self._node.gradients += self._rows
        return self._full(x)


def advance(
    step: Callable[..., Any], node: Any, mix: Any, grad: Any, last: int, t: int, states: list[Any]
) -> int:
    """Take steps t + 1, t + 2, ... from the last of `states`, until `node.due` or `last`.

    It also returns once the deadline has passed.

    Returns the iteration of the last step, and leaves the states before and after it in `states`.
    No other states are held on the way, so that the kernels can reuse their arrays.
    """
    before, state = None, states[-1]
    states.clear()
    while t < last:
        t += 1
        node.iteration = t
        before = None
        before, state = state, step(t, state, mix, grad)
        if t >= node.due or (node.deadline and monotonic() >= node.deadline):
            break
    states += (before, state)
    return t
