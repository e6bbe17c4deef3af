"""The phases of a run: their names and codes, and the phases of a run without a profile."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

PHASES = (
    "unattributed",  # the loop itself, and all that belongs to no other phase
    "update",
    "packing",  # copying into the send buffer, adding up received vectors
    "exchange",
    "gradient",
    "metric",
    "checkpoint",
    "logging",
    "profiling",  # adding up the stamps
)
ITERATION = ("gradient", "update", "packing", "exchange", "unattributed")
"""The phases that `seconds_per_iteration` adds up."""
OWN = ("gradient", "update", "packing", "unattributed")
"""The phases of an iteration in which a node waits for nobody."""

UNATTRIBUTED, UPDATE, PACKING, EXCHANGE, GRADIENT, METRIC, CHECKPOINT, LOGGING, PROFILING = range(9)
# further codes: an iteration begins (phase update), an exchange starts, an exchange is awaited
BEGIN, POST, AWAIT = 9, 10, 11
PHASE_OF = np.array([*range(9), UPDATE, EXCHANGE, EXCHANGE])  # by code


class NoPhases:
    """The phases of a run without a profile: nothing is timed."""

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
