"""Time stamps of one rank: one at every change of phase, added up from time to time.

A stamp is a code and a time, appended to an array; all arithmetic is done later. So timing costs
about a microsecond per iteration.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..comm.compression import Encoder
from ..comm.plan import CompressedPlan, Plan
from ..kernels import stamp
from .phases import (
    AWAIT,
    BEGIN,
    DECODE,
    ENCODE,
    GRADIENT,
    PACKING,
    PHASE_OF,
    PHASES,
    POST,
    PROFILING,
    UNATTRIBUTED,
    UPDATE,
)

Array = NDArray[Any]

FLUSH_AT = 1 << 15  # words of stamps, after which they are added up
ROOM = 1 << 14  # words that one more iteration may add

Stamp = Callable[[int], None]


class Stamps:
    """An array of words: the number of words in use, then code, time, code, time, ..."""

    def __init__(self) -> None:
        self.words = np.zeros(1 + FLUSH_AT + ROOM, dtype=np.int64)
        self.clear()
        self.add: Stamp = partial(stamp, self.words)

    def around(self, before: int, after: int, inner: Callable[..., Any]) -> Callable[..., Any]:
        """Return `inner` with a stamp before and a stamp after each call."""
        if kernels.C is not None:
            return kernels.C.Timed(self.words, before, after, inner)

        def timed(*arguments: Any, **named: Any) -> Any:
            self.add(before)
            result = inner(*arguments, **named)
            self.add(after)
            return result

        return timed

    @property
    def pairs(self) -> Array:
        """Return all stamps: a view of shape (stamps, 2), code and time."""
        return self.words[1 : self.words[0]].reshape(-1, 2)

    def clear(self) -> None:
        self.words[0] = 1

    def keep_last(self) -> None:
        """Remove all stamps but the last."""
        last = self.pairs[-1].copy()
        self.words[1:3] = last
        self.words[0] = 3


class Phases:
    """The times of one rank by iteration and phase; iterations in `window` are kept in detail."""

    def __init__(self, iterations: int, window: range) -> None:
        self.seconds = np.zeros((iterations + 1, len(PHASES)))
        """By iteration and phase; row 0 is the time before the first iteration."""
        self._calls = array("q")
        self.window = window
        self.kept: list[Array] = []
        """Of each stretch of time in the window: iteration, code, begin and end (ns)."""
        self._iteration = 0
        self._exchange = -1
        self._stamps = Stamps()
        self.enter: Stamp = self._stamps.add
        """Counts the time from now on to the given phase."""
        self.enter(UNATTRIBUTED)

    @property
    def calls(self) -> Array:
        """Return, of every start and wait of an exchange: iteration, exchange, begin, end (ns)."""
        return np.array(self._calls, np.int64).reshape(-1, 4)

    @contextmanager
    def during(self, phase: int) -> Iterator[None]:
        """Count the time of the `with` block to the given phase, and then to the one before."""
        before = int(self._stamps.pairs[-1, 0])
        self.enter(phase)
        yield
        self.enter(before)

    def time_step(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        """Return the step with stamps at its beginning and end."""
        timed, used = self._stamps.around(BEGIN, UNATTRIBUTED, inner), self._stamps.words.item

        def step(t: int, state: Any, mix: Any, grad: Any) -> Any:
            state = timed(t, state, mix, grad)
            if used(0) > FLUSH_AT:
                self.flush()
            return state

        return step

    def time_gradient(self, inner: Callable[..., Array]) -> Callable[..., Array]:
        """Return the gradient with stamps at its beginning and end."""
        return self._stamps.around(GRADIENT, UPDATE, inner)

    def make_plan(
        self, node: Any, layer: int, vectors: Sequence[Array], kinds: Sequence[str]
    ) -> Plan:
        """Return a plan that leaves stamps, for `Node.make_plan`."""
        return TimedPlan(self._stamps, node, layer, vectors, kinds)

    def make_compressed_plan(
        self,
        node: Any,
        layer: int,
        vectors: Sequence[Array],
        kinds: Sequence[str],
        encoder: Encoder,
    ) -> CompressedPlan:
        """Return a plan that leaves stamps, for `Node.make_compressed_plan`."""
        return TimedCompressedPlan(self._stamps, node, layer, vectors, kinds, encoder)

    def close(self) -> None:
        """Add up the stamps after the last iteration; later times are not counted."""
        self.flush()

    def flush(self) -> None:
        """Add up the stamps so far, and keep only the last one, whose phase continues."""
        self.enter(PROFILING)
        codes, times = self._stamps.pairs.T.copy()
        self._stamps.keep_last()
        begins, ends, codes = times[:-1], times[1:], codes[:-1]
        iterations = self._iteration + np.cumsum(codes == BEGIN)
        first, last = self._iteration, int(iterations[-1])
        place = (iterations - first) * len(PHASES) + PHASE_OF[codes]
        sums = np.bincount(
            place, weights=(ends - begins) * 1e-9, minlength=(last - first + 1) * len(PHASES)
        )
        self.seconds[first : last + 1] += sums.reshape(-1, len(PHASES))
        posts = codes == POST
        exchanging = np.flatnonzero(posts | (codes == AWAIT))
        numbers = self._exchange + np.cumsum(posts[exchanging])
        calls = np.stack(
            [iterations[exchanging], numbers, begins[exchanging], ends[exchanging]], axis=1
        )
        self._calls.frombytes(calls.tobytes())
        if self.window.start <= last and first < self.window.stop:
            inside = (iterations >= self.window.start) & (iterations < self.window.stop)
            self.kept.append(np.stack([iterations, codes, begins, ends], axis=1)[inside])
        self._iteration = last
        self._exchange += int(np.count_nonzero(posts))
        self.enter(UNATTRIBUTED)


class TimedPlan(Plan):
    """A plan that leaves a stamp at each change between packing, exchange and update."""

    def __init__(self, stamps: Stamps, *arguments: Any) -> None:
        self._stamps = stamps
        super().__init__(*arguments)
        self.transfer.watch(stamps.words, PACKING, UPDATE)

    def _calls(self) -> tuple[Callable[[], object], Callable[[int], object] | None]:
        start, finish = super()._calls()
        timed = self._stamps.around
        return (
            timed(POST, PACKING, start),
            None if finish is None else timed(AWAIT, PACKING, finish),
        )


class TimedCompressedPlan(CompressedPlan):
    """A plan of payloads that also tells encoding and decoding from the exchange."""

    def __init__(self, stamps: Stamps, *arguments: Any) -> None:
        self._stamps = stamps
        super().__init__(*arguments)
        self.transfer.watch(stamps.words, PACKING, UPDATE)

    def _send_calls(self) -> tuple[Callable[[], object], Callable[[int], object] | None]:
        start, finish = super()._send_calls()
        timed = self._stamps.around
        return (
            timed(POST, PACKING, start),
            None if finish is None else timed(AWAIT, PACKING, finish),
        )

    def _encode(self) -> None:
        self._stamps.add(ENCODE)
        super()._encode()
        self._stamps.add(PACKING)

    def _decode(self, index: int) -> None:
        self._stamps.add(DECODE)
        super()._decode(index)
        self._stamps.add(PACKING)
