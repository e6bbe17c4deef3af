"""What an exchange costs, as a formula: fitted to measured times, and used to predict others."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Cost:
    """seconds = latency + degree (per_message + bytes / bandwidth), for messages of `bytes`."""

    latency: float  # seconds
    bandwidth: float  # bytes a second; infinite where the size made no difference
    per_message: float = 0.0  # seconds for each neighbour
    r2: float = 1.0  # the share of the (relative) variation that the formula explains
    worst: float = 0.0  # its largest relative error

    def seconds(self, degree: float, size: float) -> float:
        return self.latency + degree * (self.per_message + size / self.bandwidth)


def fit(degrees: Sequence[float], sizes: Sequence[float], seconds: Sequence[float]) -> Cost:
    """The formula that fits best in relative terms, no part of it negative.

    Times span decades: by absolute errors the longest alone would decide. With one degree only,
    what each message costs by itself cannot be told from the latency, and stays in that.
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
    """The coefficients >= 0 whose combination of the columns is nearest to 1: at most three."""
    count = design.shape[1]
    scale = np.linalg.norm(design, axis=0)  # bytes and seconds differ by many decades
    design = design / scale
    best, smallest = np.zeros(count), np.inf
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            part = design[:, chosen]
            found, *_ = np.linalg.lstsq(part, np.ones(len(part)), rcond=None)
            error = float(np.square(part @ found - 1).sum())
            if (found >= 0).all() and error < smallest:
                best, smallest = np.zeros(count), error
                best[list(chosen)] = found
    return np.asarray(best / scale)
