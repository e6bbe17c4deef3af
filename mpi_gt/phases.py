"""Where the time of each iteration goes: a stamp at every change of phase, added up now and then.

A stamp is a code and a time, appended to a list; all arithmetic waits. So watching costs about
a microsecond an iteration.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .exchange import Exchange
from .plan import Arrivals, Plan
from .profiling import (
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

FOLD = 1 << 15  # stamps, after which they are added up


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
        self._stamps: list[int] = [UNATTRIBUTED, perf_counter_ns()]

    @property
    def calls(self) -> Array:
        """Of every call that posts or awaits: iteration, exchange's number, begin, end (ns)."""
        return np.array(self._calls, np.int64).reshape(-1, 4)

    def enter(self, phase: int) -> None:
        """From now on it is this phase's time."""
        self._stamps.append(phase)
        self._stamps.append(perf_counter_ns())

    @contextmanager
    def during(self, phase: int) -> Iterator[None]:
        """Within a pause of the loop: this phase's time, then again what it was before."""
        before = self._stamps[-2]
        self.enter(phase)
        yield
        self.enter(before)

    def watch_step(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        stamps, add, now = self._stamps, self._stamps.append, perf_counter_ns

        def step(t: int, state: Any, mix: Any, grad: Any) -> Any:
            add(BEGIN)
            add(now())
            state = inner(t, state, mix, grad)
            add(UNATTRIBUTED)
            add(now())
            if len(stamps) > FOLD:
                self.fold()
            return state

        return step

    def watch_gradient(self, inner: Callable[..., Array]) -> Callable[..., Array]:
        add, now = self._stamps.append, perf_counter_ns

        def gradient(t: int, x: Array) -> Array:
            add(GRADIENT)
            add(now())
            g = inner(t, x)
            add(UPDATE)
            add(now())
            return g

        return gradient

    def make_plan(self, node: Any, vectors: Sequence[Array]) -> Plan:
        """In place of Plan: one that leaves stamps."""
        return WatchedPlan(node, vectors, self._stamps)

    def close(self) -> None:
        """The last iteration is over: what follows is nobody's time."""
        self.fold()

    def fold(self) -> None:
        """Add up the stamps so far. The last one stays: its phase goes on."""
        self.enter(PROFILING)
        codes, times = np.array(self._stamps, dtype=np.int64).reshape(-1, 2).T
        del self._stamps[:-2]
        begins, ends, codes = times[:-1], times[1:], codes[:-1]
        iterations = self._iteration + np.cumsum(codes == BEGIN)
        first, last = self._iteration, int(iterations[-1])
        place = (iterations - first) * len(PHASES) + PHASE_OF[codes]
        sums = np.bincount(
            place, weights=(ends - begins) * 1e-9, minlength=(last - first + 1) * len(PHASES)
        )
        self.seconds[first : last + 1] += sums.reshape(-1, len(PHASES))
        numbers = self._exchange + np.cumsum(codes == POST)
        mine = (codes == POST) | (codes == AWAIT)
        calls = np.stack([iterations, numbers, begins, ends], axis=1)[mine]
        self._calls.frombytes(calls.tobytes())
        if self.window.start <= last and first < self.window.stop:
            inside = (iterations >= self.window.start) & (iterations < self.window.stop)
            self.kept.append(np.stack([iterations, codes, begins, ends], axis=1)[inside])
        self._iteration, self._exchange = last, int(numbers[-1])
        self.enter(UNATTRIBUTED)


class WatchedPlan(Plan):
    """A plan that leaves a stamp where packing, exchange and update give way to each other."""

    def __init__(self, node: Any, vectors: Sequence[Array], stamps: list[int]) -> None:
        super().__init__(node, vectors)
        self._stamps = stamps
        self._exchange = WatchedExchange(self._exchange, stamps)

    def post(self, vectors: tuple[Array, ...]) -> Arrivals:
        add = self._stamps.append
        add(PACKING)
        add(perf_counter_ns())
        results = super().post(vectors)
        add(UPDATE)
        add(perf_counter_ns())
        return results

    def collect(self, index: int) -> Array:
        add = self._stamps.append
        add(PACKING)
        add(perf_counter_ns())
        result = super().collect(index)
        add(UPDATE)
        add(perf_counter_ns())
        return result


class WatchedExchange(Exchange):
    def __init__(self, inner: Exchange, stamps: list[int]) -> None:
        self._start, self._finish = inner.start, inner.finish
        self.free, self.stamps = inner.free, inner.stamps  # type: ignore[method-assign]
        self._add = stamps.append
        if inner.blocking:
            self.finish = inner.finish  # type: ignore[method-assign]

    def start(self) -> None:
        add = self._add
        add(POST)
        add(perf_counter_ns())
        self._start()
        add(PACKING)
        add(perf_counter_ns())

    def finish(self, index: int) -> None:
        add = self._add
        add(AWAIT)
        add(perf_counter_ns())
        self._finish(index)
        add(PACKING)
        add(perf_counter_ns())
