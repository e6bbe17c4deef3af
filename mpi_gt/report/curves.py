"""The data of the page's curves, thinned out so that the page stays small."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rundir.curves import Curve
from .directories import ReportedDirectory

Array = NDArray[Any]

ACROSS = ("iteration", "gradients", "bytes", "seconds")
BUDGET = 120_000  # numbers on the page for means and ranges; the same again for single seeds


def page_data(
    directories: list[ReportedDirectory], budget: int = BUDGET
) -> tuple[list[dict[str, Any]], str]:
    """Return the data that the page's script draws, and a note if points are left out.

    Means and ranges are computed here, over all seeds; of single seeds fewer points may be shown.
    A curve has the colour of its `method` and the line of its `directory`, both numbers.
    """
    owned = [(directory, curve) for directory in directories for curve in directory.curves]
    lines = sum(3 + 3 * len(curve.metrics) for _, curve in owned)
    cells = sum(len(curve.seeds) * len(curve.metrics) for _, curve in owned)
    most, most_single = (max(20, budget // max(1, count)) for count in (lines, cells))
    methods: dict[str, int] = {}
    places: dict[str, int] = {}
    data = []
    for directory, curve in owned:
        name = directory.name_of(curve.algorithm)
        data.append(
            {
                "name": name,
                "where": directory.name,
                "algorithm": curve.algorithm,
                "method": methods.setdefault(name, len(methods)),
                "directory": places.setdefault(directory.name, len(places)),
                **_points(curve, most, most_single),
            }
        )
    if len(methods) == 1:
        for entry in data:  # the colours are free
            entry["method"] = entry["directory"]
    longest = max((curve.points for _, curve in owned), default=0)
    if longest <= min(most, most_single):
        return data, ""
    return data, (
        f"To keep the page small, curves show at most {min(most, longest)} of up to {longest} "
        f"measurements, single seeds at most {min(most_single, longest)}."
    )


def _points(curve: Curve, most: int, most_single: int) -> dict[str, Any]:
    """Return the numbers of a curve, thinned out."""
    keep, single = _thin(curve.points, most), _thin(curve.points, most_single)
    by_metric = {}
    for metric, values in curve.metrics.items():
        values = np.where(np.isfinite(values), values, np.nan)
        shown = values[:, keep]
        low, high = np.fmin.reduce(shown, axis=0), np.fmax.reduce(shown, axis=0)
        by_metric[metric] = {
            # no mean where one seed is not finite, as in the other figures
            "mean": numbers(shown.mean(axis=0)),
            "low": numbers(low),
            "high": numbers(high),
            "seeds": [numbers(row) for row in values[:, single]],
        }
    return {
        "seeds": curve.seeds,
        "across": {name: numbers(_across(curve, name)[keep]) for name in ACROSS},
        "single": {name: numbers(_across(curve, name)[single]) for name in ACROSS},
        "metrics": by_metric,
    }


def _across(curve: Curve, name: str) -> Array:
    """Return that axis of a curve; NaN, which is not drawn, where a former version had none."""
    return curve.across.get(name, np.full(curve.points, np.nan))


def _thin(points: int, most: int) -> Array:
    """Return at most `most` evenly spread indices, the first and the last among them."""
    return np.unique(np.linspace(0, points - 1, min(points, most)).round().astype(int))


def numbers(values: Any) -> list[Any]:
    """Return numbers for JSON: five digits, whole numbers as integers, None if not finite."""
    return [
        None if not math.isfinite(value) else int(value) if value == int(value) else value
        for value in (float(f"{value:.5g}") if abs(value) < 1e5 else value for value in values)
    ]
