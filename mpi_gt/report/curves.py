"""The data of the page's curves, thinned out so that the page stays small."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms import full_name
from ..rundir.curves import Curve

Array = NDArray[Any]

ACROSS = ("iteration", "seconds", "bytes", "gradients")
BUDGET = 120_000  # numbers on the page for means and ranges; the same again for single seeds


def page_data(curves: list[Curve], several: bool) -> tuple[list[dict[str, Any]], str]:
    """Return the data that the page's script draws, and a note if points are left out.

    Means and ranges are computed here, over all seeds; of single seeds fewer points may be shown.
    With `several` directories, a curve's label names its directory.
    """
    lines = sum(3 + 3 * len(curve.metrics) for curve in curves)
    cells = sum(len(curve.seeds) * len(curve.metrics) for curve in curves)
    most, most_single = (max(20, BUDGET // max(1, count)) for count in (lines, cells))
    data = []
    for curve in curves:
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
        name = full_name(curve.algorithm)
        data.append(
            {
                "label": f"{name} · {curve.run}" if several else name,
                "seeds": curve.seeds,
                "across": {name: numbers(_across(curve, name)[keep]) for name in ACROSS},
                "single": {name: numbers(_across(curve, name)[single]) for name in ACROSS},
                "metrics": by_metric,
            }
        )
    longest = max((curve.points for curve in curves), default=0)
    if longest <= min(most, most_single):
        return data, ""
    return data, (
        f"To keep the page small, curves show at most {min(most, longest)} of up to {longest} "
        f"measurements, single seeds at most {min(most_single, longest)}."
    )


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
