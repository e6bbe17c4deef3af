"""The cost model of an exchange: a formula, fitted to measured times and used for predictions."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Cost:
    """The formula: seconds = latency + degree (per_message + bytes / bandwidth)."""

    latency: float  # seconds
    bandwidth: float  # bytes per second; infinite if the size made no difference
    per_message: float = 0.0  # seconds per neighbour
    r2: float = 1.0  # the share of the variation of log(seconds) that the formula explains
    worst: float = 0.0  # the largest relative error of the formula

    def seconds(self, degree: float, size: float) -> float:
        """Return the time of an exchange of messages of `size` bytes with `degree` neighbours."""
        return self.latency + degree * (self.per_message + size / self.bandwidth)


def fit(degrees: Sequence[float], sizes: Sequence[float], seconds: Sequence[float]) -> Cost:
    """Return the cost with the smallest relative errors and no negative coefficient.

    Times span decades: with absolute errors the longest times alone would decide. With a single
    degree, the cost per message cannot be told apart from the latency and is included in it.
    """
    degree, size, measured = (np.asarray(values, float) for values in (degrees, sizes, seconds))
    columns = [np.ones_like(measured), degree * size]
    if len(set(degree.tolist())) > 1:
        columns.append(degree)
    design = np.stack(columns, axis=1) / measured[:, np.newaxis]
    latency, slope, each = np.append(_least_squares(design), 0.0)[:3]
    relative = (latency + degree * (each + slope * size)) / measured - 1
    around = np.log(measured) - np.log(measured).mean()
    spread = float(around @ around)
    return Cost(
        latency=float(latency),
        bandwidth=float(1 / slope) if slope > 0 else float("inf"),
        per_message=float(each),
        r2=1 - float(relative @ relative) / spread if spread > 0 else 1.0,
        worst=float(np.abs(relative).max()),
    )


def _least_squares(design: Array) -> Array:
    """Return coefficients >= 0 whose combination of the columns (at most three) is nearest to 1.

    With so few columns, all subsets are tried.
    """
    count = design.shape[1]
    scale = np.linalg.norm(design, axis=0)  # bytes and seconds differ by many decades
    design = design / scale
    best, smallest = np.zeros(count), np.inf
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            part = design[:, chosen]
            solution, *_ = np.linalg.lstsq(part, np.ones(len(part)), rcond=None)
            error = float(np.square(part @ solution - 1).sum())
            if (solution >= 0).all() and error < smallest:
                best, smallest = np.zeros(count), error
                best[list(chosen)] = solution
    return np.asarray(best / scale)
