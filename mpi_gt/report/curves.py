"""metrics.csv as curves: by algorithm, seed and iteration, as much of it as is sound."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rundir.metrics_csv import METRICS

Array = NDArray[Any]

ACROSS = ("iteration", "seconds", "bytes")
BUDGET = 120_000  # numbers on the page for means and ranges, and as many for single seeds


@dataclass
class Curve:
    """One algorithm of one directory; metrics as (seeds, points), NaN where nothing was written."""

    run: str
    algorithm: str
    seeds: list[int]
    across: dict[str, Array]  # (points,) each
    metrics: dict[str, Array]

    @property
    def points(self) -> int:
        return len(self.across["iteration"])

    def tail(self, metric: str) -> float | None:
        """The mean over seeds and the last fifth of the logged iterations."""
        if metric not in self.metrics:
            return None
        values = self.metrics[metric][:, -math.ceil(self.points / 5) :]
        finite = values[np.isfinite(values)]
        return float(finite.mean()) if len(finite) and np.isfinite(values).all() else None

    def each(self, name: str) -> float | None:
        """Seconds or bytes of one iteration."""
        last, iterations = self.across[name][-1], self.across["iteration"][-1]
        return float(last / iterations) if iterations > 0 and np.isfinite(last) else None


def read_curves(path: Path, run: str) -> tuple[list[Curve], list[str]]:
    """A curve an algorithm, and what is wrong with the file. A torn last line is left out."""
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            found, bad = _cells(csv.reader(file))
    except FileNotFoundError:
        return [], []
    except (OSError, csv.Error) as error:
        return [], [f"metrics.csv cannot be read: {error}"]
    troubles = [f"metrics.csv: {bad} lines are torn or no numbers, and left out"] if bad else []
    return [_curve(run, label, cells) for label, cells in found.items()], troubles


NUMBERS = (*METRICS, "seconds", "bytes")
Cells = dict[tuple[int, int], list[float]]
"""By (seed, iteration), the numbers of one row in the order of NUMBERS."""


def _cells(lines: Any) -> tuple[dict[str, Cells], int]:
    """By algorithm; and how many lines make no sense."""
    names: list[str] = next(lines, [])
    found: dict[str, Cells] = {}
    bad = 0
    if not {"algorithm", "seed", "iteration", *NUMBERS} <= set(names):
        return {}, 1
    label, seed, iteration = (names.index(name) for name in ("algorithm", "seed", "iteration"))
    columns = [names.index(name) for name in NUMBERS]
    for line in lines:
        try:
            if len(line) != len(names):
                raise ValueError
            values = [float(line[column] or "nan") for column in columns]
            found.setdefault(line[label], {})[int(line[seed]), int(line[iteration])] = values
        except ValueError:
            bad += 1
    return found, bad


def _curve(run: str, label: str, cells: Cells) -> Curve:
    places = np.array(list(cells))
    seeds, row = np.unique(places[:, 0], return_inverse=True)
    iterations, column = np.unique(places[:, 1], return_inverse=True)
    values = np.full((len(NUMBERS), len(seeds), len(iterations)), np.nan)
    values[:, row, column] = np.array(list(cells.values())).T
    by_name = dict(zip(NUMBERS, values, strict=True))
    across: dict[str, Array] = {"iteration": iterations}
    across.update({name: np.fmax.reduce(by_name[name], axis=0) for name in ("seconds", "bytes")})
    metrics = {name: by_name[name] for name in METRICS if np.isfinite(by_name[name]).any()}
    return Curve(run, label, seeds.tolist(), across, metrics)


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
