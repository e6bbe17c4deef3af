"""Python twins of transfer.c, mix.c and others: sending vectors and adding up what comes.

The compiled classes do the same, without a frame of Python's: on many ranks that share a core,
frames are most of an iteration. `mpi_gt.transfer` has whichever there are.
"""

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MessageBuffers = tuple[Array, Array, tuple[Array, ...], tuple[Array, ...]]
"""Of a Message: header, headers, slots, received."""


class NodeCounters:
    """What a rank counts, for its messages, the watchdog and the loop: the base of Node."""

    iteration: int = 0
    due: int = 0
    """The iteration after which the loop has more to do than the next step."""
    stop_at: int = 0
    """What all have agreed upon, see Checkpointer."""
    waits: int = 0
    """How often this rank has begun to wait for others."""
    bytes_sent: int = 0
    waiting: Any = None
    """What for, while it does: a plan, or words."""


def stamp(stamps: Array, code: int) -> None:
    """A code and the time, at the end of the words in use; the first word counts these."""
    used = stamps[0]
    stamps[used] = code
    stamps[used + 1] = perf_counter_ns()
    stamps[0] = used + 2


def add_in_order(rows: Array, total: Array) -> None:
    """The sum of the rows, the first one first, entry by entry.

    numpy's reduction is that, but for a single column, which it would add up pairwise.
    """
    if rows.shape[1] == 1:
        total[:] = np.add.accumulate(rows, axis=0)[-1]
    else:
        np.add.reduce(rows, axis=0, out=total)


class WeightedSum:
    """sum_j A_ij z_j, added up in ascending rank order, the own vector in its place.

    The one place where received numbers are added (its twin is combine.c), so the bits
    depend neither on the exchange nor on the MPI library. Long vectors are taken in pieces that
    stay in the cache.
    """

    PIECE = 4096

    def __init__(self, weights: Array, place: int, length: int) -> None:
        self._weights = weights[:, np.newaxis]
        self._place = place
        self._terms = np.empty((len(weights), min(length, self.PIECE)), weights.dtype)

    def __call__(self, received: Array, own: Array) -> Array:
        """The sum, as a new array of own's shape."""
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
    """Sends a given number of vectors to the neighbours, in one exchange."""

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
        self._letters = messages
        self._parts = [
            (which, received, own)
            for which, (_, _, slots, theirs) in enumerate(messages)
            for own, received in zip(slots, theirs, strict=True)
        ]
        self._combine = WeightedSum(weights, place, max(own.size for _, _, own in self._parts))
        self._bytes = bytes
        self._start = start
        self._finish = finish
        self._fill = fill
        self._stamps: tuple[Array, int, int] | None = None
        self._arrived = [False] * len(messages)
        self.pending = 0  # a bit for each result that was not waited for yet
        self.results: Any = None

    def watch(self, stamps: Array, before: int, after: int) -> None:
        """Stamp where packing and adding up begin, and where they end."""
        self._stamps = stamps, before, after

    def __call__(self, *vectors: Array) -> Any:
        self._stamp(is_end=False)
        self._fill(*vectors)
        node = self._node
        node.waits += 1
        node.waiting = self._plan
        self._start()
        node.waiting = None
        self._arrived = [False] * len(self._letters)
        self.pending = (1 << len(self._parts)) - 1
        node.bytes_sent += self._bytes
        self._stamp(is_end=True)
        return self.results

    def collect(self, index: int) -> Array:
        """The mixed vector, once it has come from every neighbour."""
        if not self.pending >> index & 1:
            raise RuntimeError("this result of mix was waited for already")
        self.pending ^= 1 << index
        which, received, own = self._parts[index]
        self._stamp(is_end=False)
        if not self._arrived[which]:
            self._receive(which)
        total = self._combine(received, own)
        self._stamp(is_end=True)
        return total

    def _receive(self, which: int) -> None:
        node = self._node
        if self._finish is not None:
            node.waiting = self._plan
            self._finish(which)
            node.waiting = None
        self._arrived[which] = True
        header, headers, _, _ = self._letters[which]
        if headers.tobytes() != header.tobytes() * len(headers):
            node.check_headers(headers)

    def _stamp(self, is_end: bool) -> None:
        if self._stamps is not None:
            stamps, before, after = self._stamps
            stamp(stamps, after if is_end else before)


class PendingMix:
    """One mixed vector, pending until `wait()`, which gives it."""

    def __init__(self, transfer: Transfer, index: int) -> None:
        self._transfer = transfer
        self._index = index

    def wait(self) -> Array:
        return self._transfer.collect(self._index)


class Mix:
    """`mix(z, ...)`: has the Transfer for so many vectors send them, made by `make` when needed."""

    def __init__(self, make: Callable[..., Transfer]) -> None:
        self._make = make
        self._transfers: dict[int, Transfer] = {}
        self._last: Transfer | None = None

    def __call__(self, *vectors: Array) -> Any:
        if self._last is not None and self._last.pending:
            raise RuntimeError("a result of the last mix was never waited for")
        transfer = self._transfers.get(len(vectors))
        if transfer is None:
            transfer = self._transfers[len(vectors)] = self._make(*vectors)
        self._last = transfer
        return transfer(*vectors)


class NextGradient:
    """What a step gets as `grad`: the gradient with the draw of the iteration to come."""

    def __init__(self, node: Any, gradient: Callable[[int, Array], Array]) -> None:
        self._node = node
        self._gradient = gradient

    def __call__(self, x: Array) -> Array:
        return self._gradient(self._node.iteration + 1, x)


def advance(
    step: Callable[..., Any], node: Any, mix: Any, grad: Any, last: int, t: int, states: list[Any]
) -> int:
    """Steps t + 1, t + 2, ... until one is due or the last, from the last of `states`.

    Gives its iteration, and leaves in `states` the state before it and that after it. On the way
    nobody holds any but these two: their arrays may be those of the next.
    """
    before, state = None, states[-1]
    states.clear()
    while t < last:
        t += 1
        node.iteration = t
        before = None
        before, state = state, step(t, state, mix, grad)
        if t >= node.due:
            break
    states += (before, state)
    return t
