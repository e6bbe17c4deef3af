"""Where the time goes: the clock of the loop, and the names of its phases."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

PHASES = (
    "unattributed",  # the loop itself, and whatever no other phase explains
    "update",
    "packing",  # copying into the send buffer, adding up what came
    "exchange",
    "gradient",
    "metric",
    "checkpoint",
    "logging",
    "profiling",  # adding up the stamps
)
ITERATION = ("gradient", "update", "packing", "exchange", "unattributed")
"""What the time of an iteration consists of, as `seconds_per_iteration` counts it."""

UNATTRIBUTED, UPDATE, PACKING, EXCHANGE, GRADIENT, METRIC, CHECKPOINT, LOGGING, PROFILING = range(9)
BEGIN, POST, AWAIT = 9, 10, 11  # of an iteration (update), of an exchange (exchange)
PHASE_OF = np.array([*range(9), UPDATE, EXCHANGE, EXCHANGE])  # of each code


class Clock:
    """Seconds since it was made, less those while it was paused; begins with `passed`."""

    def __init__(self, passed: float = 0.0) -> None:
        self._started = time.perf_counter() - passed
        self._paused = 0.0
        self._pause_began: float | None = None

    @property
    def seconds(self) -> float:
        now = time.perf_counter() if self._pause_began is None else self._pause_began
        return now - self._started - self._paused

    def stop(self) -> float:
        """Until `go_on`; the seconds so far."""
        self._pause_began = now = time.perf_counter()
        return now - self._started - self._paused

    def go_on(self) -> None:
        assert self._pause_began is not None
        self._paused += time.perf_counter() - self._pause_began
        self._pause_began = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.stop()
        try:
            yield
        finally:
            self.go_on()


class NoPhases:
    """Where nobody asked for a profile: the loop runs as if there were none."""

    def enter(self, phase: int) -> None:
        pass

    @contextmanager
    def during(self, phase: int) -> Iterator[None]:
        yield

    def watch_step(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        return inner

    def watch_gradient(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        return inner

    def close(self) -> None:
        pass
