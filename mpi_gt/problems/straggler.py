"""Stragglers: nodes made slow on purpose, which sleep before the first gradient of a step."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import UserError
from ..spec import convert_options, split


@dataclass(frozen=True)
class Straggler:
    """A node that sleeps `ms` ± up to `jitter` milliseconds in an iteration, with `probability`."""

    node: int = 0
    ms: float = 5.0
    jitter: float = 0.0
    probability: float = 1.0

    @classmethod
    def of(cls, text: str) -> "Straggler":
        """Parse node=NODE,ms=TIME,... into a checked straggler."""
        _, options = split(f"straggler:{text}")
        for needed in ("node", "ms"):
            if needed not in options:
                raise UserError(f"--straggler needs node=NODE,ms=TIME, not '{text}'")
        straggler = cls(**convert_options("--straggler", cls, options))
        straggler._check()
        return straggler

    def _check(self) -> None:
        if self.node < 0:
            raise UserError(f"--straggler: node must be >= 0, not {self.node}")
        if not (math.isfinite(self.ms) and 0 <= self.jitter <= self.ms <= 600_000):
            raise UserError(
                "--straggler: ms must be in [0, 600000] and jitter in [0, ms], "
                f"not {self.ms} and {self.jitter}"
            )
        if not 0 < self.probability <= 1:
            raise UserError(f"--straggler: probability must be in (0, 1], not {self.probability}")

    def require_run(self, watchdog: int, nodes: int | None) -> None:
        """Raise UserError if it does not fit a run with this watchdog, on so many nodes."""
        if 0 < watchdog <= (self.ms + self.jitter) / 1000:
            raise UserError(
                "the watchdog would end a run with this straggler: give --watchdog more than "
                f"{watchdog} seconds"
            )
        if nodes is not None and self.node >= nodes:
            raise UserError(f"--straggler: there is no node {self.node} among {nodes}")

    def slow(self, gradient: Callable[..., Any], node: int) -> Callable[..., Any]:
        """Return the gradient function for `node`, slowed if it is the straggler.

        The sleep draws from a generator of its own, so the problem's random numbers do not change.
        """
        if node != self.node:
            return gradient
        draw, last = random.Random(self.node), 0

        def slowed(t: int, x: Any) -> Any:
            nonlocal last
            first, last = t != last, t  # of an iteration's gradients
            if first and (self.probability == 1 or draw.random() < self.probability):
                time.sleep((self.ms + self.jitter * draw.uniform(-1, 1)) / 1000)
            return gradient(t, x)

        return slowed
