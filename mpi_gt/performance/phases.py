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
    "encode",  # compressing the vectors to send
    "decode",  # of compressed vectors that came
    "profiling",  # adding up the stamps
)
COMPRESSION = ("encode", "decode")
"""The phases that only methods with compressed messages have."""
ITERATION = ("gradient", "update", "packing", "encode", "exchange", "decode", "unattributed")
"""The phases that `seconds_per_iteration` adds up."""
OWN = ("gradient", "update", "packing", "encode", "decode", "unattributed")
"""The phases of an iteration in which a node waits for nobody."""

UNATTRIBUTED, UPDATE, PACKING, EXCHANGE, GRADIENT, METRIC, CHECKPOINT, LOGGING = range(8)
ENCODE, DECODE, PROFILING = 8, 9, 10
# further codes: an iteration begins (phase update), an exchange starts, an exchange is awaited
BEGIN, POST, AWAIT = 11, 12, 13
PHASE_OF = np.array([*range(11), UPDATE, EXCHANGE, EXCHANGE])  # by code


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
