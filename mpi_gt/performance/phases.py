"""Where the time goes: the clock of the loop, and the names of its phases."""

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


class NoPhases:
    """Where nobody asked for a profile: the loop runs as if there were none."""

    def enter(self, phase: int) -> None:
        pass

    @contextmanager
    def during(self, phase: int) -> Iterator[None]:
        yield

    def time_step(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        return inner

    def time_gradient(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        return inner

    def close(self) -> None:
        pass


OWN = ("gradient", "update", "packing", "unattributed")  # a node's own time, waiting for nobody
