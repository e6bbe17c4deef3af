"""metrics.csv as curves: by algorithm, seed and iteration, as much of it as is sound."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rundir.curves import Curve

Array = NDArray[Any]

ACROSS = ("iteration", "seconds", "bytes")
BUDGET = 120_000  # numbers on the page for means and ranges, and as many for single seeds


def page_data(curves: list[Curve], several: bool) -> tuple[list[dict[str, Any]], str]:
    """What the page's script draws from, within the budget; and a note where points are left out.

    Means and ranges are made here, from every seed; of single seeds fewer points may be shown.
    """
    lines = sum(3 + 3 * len(curve.metrics) for curve in curves)
    cells = sum(len(curve.seeds) * len(curve.metrics) for curve in curves)
    most, most_single = (max(20, BUDGET // max(1, count)) for count in (lines, cells))
    told = []
    for curve in curves:
        keep, single = _thin(curve.points, most), _thin(curve.points, most_single)
        of_metrics = {}
        for metric, values in curve.metrics.items():
            values = np.where(np.isfinite(values), values, np.nan)
            shown = values[:, keep]
            low, high = np.fmin.reduce(shown, axis=0), np.fmax.reduce(shown, axis=0)
            of_metrics[metric] = {
                # not finite for one seed: no mean, as in the other figures
                "mean": numbers(shown.mean(axis=0)),
                "low": numbers(low),
                "high": numbers(high),
                "seeds": [numbers(row) for row in values[:, single]],
            }
        told.append(
            {
                "label": f"{curve.algorithm} · {curve.run}" if several else curve.algorithm,
                "seeds": curve.seeds,
                "across": {name: numbers(values[keep]) for name, values in curve.across.items()},
                "single": {name: numbers(values[single]) for name, values in curve.across.items()},
                "metrics": of_metrics,
            }
        )
    longest = max((curve.points for curve in curves), default=0)
    if longest <= min(most, most_single):
        return told, ""
    return told, (
        f"To keep the page small, curves show at most {min(most, longest)} of up to {longest} "
        f"measurements, single seeds at most {min(most_single, longest)}."
    )


def _thin(points: int, most: int) -> Array:
    """Evenly spread indices, the first and the last among them."""
    return np.unique(np.linspace(0, points - 1, min(points, most)).round().astype(int))


def numbers(values: Any) -> list[Any]:
    """For JSON: five digits, whole numbers as such, null for what is not finite."""
    return [
        None if not math.isfinite(value) else int(value) if value == int(value) else value
        for value in (float(f"{value:.5g}") if abs(value) < 1e5 else value for value in values)
    ]
