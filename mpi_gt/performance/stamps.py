"""Where the time of each iteration goes: a stamp at every change of phase, added up now and then.

A stamp is a code and a time, put at the end of an array; all arithmetic waits. So watching costs
about a microsecond an iteration.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..comm.plan import Plan
from ..kernels import stamp
from .phases import (
    AWAIT,
    BEGIN,
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

FOLD = 1 << 15  # words of stamps, after which they are added up
ROOM = 1 << 14  # words that an iteration may still add

Stamp = Callable[[int], None]


class Stamps:
    """Words in an array: how many are in use, then code, time, code, time."""

    def __init__(self) -> None:
        self.words = np.zeros(1 + FOLD + ROOM, dtype=np.int64)
        self.clear()
        self.add: Stamp = partial(stamp, self.words)

    def around(self, before: int, after: int, inner: Callable[..., Any]) -> Callable[..., Any]:
        """The function between two stamps."""
        if kernels.C is not None:
            return kernels.C.Timed(self.words, before, after, inner)

        def watched(*arguments: Any, **named: Any) -> Any:
            self.add(before)
            result = inner(*arguments, **named)
            self.add(after)
            return result

        return watched

    @property
    def pairs(self) -> Array:
        """(codes, times)."""
        return self.words[1 : self.words[0]].reshape(-1, 2)

    def clear(self) -> None:
        self.words[0] = 1

    def keep_last(self) -> None:
        last = self.pairs[-1].copy()
        self.words[1:3] = last
        self.words[0] = 3


class Phases:
    """The stamps of one rank in one run of `iterations`; those in `window` are kept as they are."""

    def __init__(self, iterations: int, window: range) -> None:
        self.seconds = np.zeros((iterations + 1, len(PHASES)))
        """By iteration and phase; row 0 is what comes before the first."""
        self._calls = array("q")
        self.window = window
        self.kept: list[Array] = []
        """(iteration, code, begin, end) of each stretch inside the window."""
        self._iteration = 0
        self._exchange = -1
        self._stamps = Stamps()
        self.enter: Stamp = self._stamps.add
        """From now on it is this phase's time."""
        self.enter(UNATTRIBUTED)

    @property
    def calls(self) -> Array:
        """Of every call that posts or awaits: iteration, exchange's number, begin, end (ns)."""
        return np.array(self._calls, np.int64).reshape(-1, 4)

    @contextmanager
    def during(self, phase: int) -> Iterator[None]:
        """Within a pause of the loop: this phase's time, then again what it was before."""
        before = int(self._stamps.pairs[-1, 0])
        self.enter(phase)
        yield
        self.enter(before)

    def time_step(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        watched, used = self._stamps.around(BEGIN, UNATTRIBUTED, inner), self._stamps.words.item

        def step(t: int, state: Any, mix: Any, grad: Any) -> Any:
            state = watched(t, state, mix, grad)
            if used(0) > FOLD:
                self.flush()
            return state

        return step

    def time_gradient(self, inner: Callable[..., Array]) -> Callable[..., Array]:
        return self._stamps.around(GRADIENT, UPDATE, inner)

    def make_plan(self, node: Any, vectors: Sequence[Array]) -> Plan:
        """In place of Plan: one that leaves stamps."""
        return TimedPlan(node, vectors, self._stamps)

    def close(self) -> None:
        """The last iteration is over: what follows is nobody's time."""
        self.flush()

    def flush(self) -> None:
        """Add up the stamps so far. The last one stays: its phase goes on."""
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
        mine = np.flatnonzero(posts | (codes == AWAIT))
        numbers = self._exchange + np.cumsum(posts[mine])
        calls = np.stack([iterations[mine], numbers, begins[mine], ends[mine]], axis=1)
        self._calls.frombytes(calls.tobytes())
        if self.window.start <= last and first < self.window.stop:
            inside = (iterations >= self.window.start) & (iterations < self.window.stop)
            self.kept.append(np.stack([iterations, codes, begins, ends], axis=1)[inside])
        self._iteration = last
        self._exchange += int(np.count_nonzero(posts))
        self.enter(UNATTRIBUTED)


class TimedPlan(Plan):
    """A plan that leaves a stamp where packing, exchange and update give way to each other."""

    def __init__(self, node: Any, vectors: Sequence[Array], stamps: Stamps) -> None:
        self._stamps = stamps
        super().__init__(node, vectors)
        self.transfer.watch(stamps.words, PACKING, UPDATE)

    def _calls(self) -> tuple[Callable[[], object], Callable[[int], object] | None]:
        start, finish = super()._calls()
        watch = self._stamps.around
        return (
            watch(POST, PACKING, start),
            None if finish is None else watch(AWAIT, PACKING, finish),
        )
