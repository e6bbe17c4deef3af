"""Curves of metrics.csv by algorithm, seed and iteration; unreadable lines are skipped."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..files import require_regular
from .metrics_csv import ADDED, COSTS, METRICS, extra_columns, is_column_name, lines_of

Array = NDArray[Any]

NUMBERS = (*METRICS, *COSTS)

Cells = dict[tuple[int, int], list[float]]
"""By (seed, iteration): the numbers of one row, in the order of NUMBERS, then the other columns."""


@dataclass
class Curve:
    """The metrics of one algorithm in one run directory.

    `across` has iteration, seconds, bytes and gradients, each (points,); `metrics` has (seeds,
    points), with NaN for a missing cell. Former versions counted no gradients.
    """

    run: str
    algorithm: str
    seeds: list[int]
    across: dict[str, Array]
    metrics: dict[str, Array]

    @property
    def points(self) -> int:
        """The number of logged iterations."""
        return len(self.across["iteration"])

    def tail(self, metric: str) -> float | None:
        """Return the mean over seeds and the last fifth of the logged iterations.

        None: there is no such metric, or one of these values is not finite.
        """
        if metric not in self.metrics:
            return None
        values = self.metrics[metric][:, -math.ceil(self.points / 5) :]
        finite = values[np.isfinite(values)]
        return float(finite.mean()) if len(finite) and np.isfinite(values).all() else None

    def each(self, name: str) -> float | None:
        """Return the seconds or bytes per iteration."""
        last, iterations = self.across[name][-1], self.across["iteration"][-1]
        return float(last / iterations) if iterations > 0 and np.isfinite(last) else None


def read_curves(path: Path, run: str, growing: bool = False) -> tuple[list[Curve], list[str]]:
    """Return one curve per algorithm, and messages about what is wrong with the file.

    A last line that does not end is not used: its last number may lack digits. Of a file that is
    `growing` it is no mistake.
    """
    if not path.exists():
        return [], []
    torn: list[str] = []
    try:
        require_regular(path)
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            by_algorithm, extra, bad = _cells(csv.reader(_whole(lines_of(file), torn)))
    except (OSError, csv.Error, UserError) as error:
        return [], [f"metrics.csv cannot be read: {error}"]
    bad += 0 if growing else len(torn)
    lines = "1 line" if bad == 1 else f"{bad} lines"
    troubles = [f"metrics.csv: skipped {lines}, incomplete or not numeric"] if bad else []
    return [_curve(run, label, cells, extra) for label, cells in by_algorithm.items()], troubles


def _whole(lines: Iterator[str], torn: list[str]) -> Iterator[str]:
    """Return the lines that end; the last one goes into `torn` if it does not.

    What `lines_of` has cut is passed on, for csv to refuse.
    """
    for line in lines:
        if line.endswith(("\n", "\r")) or len(line) > csv.field_size_limit():
            yield line
        else:
            torn.append(line)


def _cells(lines: Any) -> tuple[dict[str, Cells], tuple[str, ...], int]:
    """Return the cells by algorithm, the columns beyond NUMBERS, and how many lines are bad."""
    names: list[str] = next(lines, [])
    written = len(names)
    by_algorithm: dict[str, Cells] = {}
    bad = 0
    if not {"algorithm", "seed", "iteration", *NUMBERS} <= {*names, *ADDED}:
        return {}, (), min(1, written)
    label, seed, iteration = (names.index(name) for name in ("algorithm", "seed", "iteration"))
    extra = tuple(name for name in extra_columns(names) if is_column_name(name))
    names += [name for name in ADDED if name not in names]
    columns = [names.index(name) for name in (*NUMBERS, *extra)]
    for line in lines:
        try:
            if len(line) != written:
                raise ValueError
            line += [""] * (len(names) - written)
            values = [float(line[column] or "nan") for column in columns]
            place = int(line[seed]), int(line[iteration])
            if max(map(abs, place)) >= 2**63:
                raise ValueError
            by_algorithm.setdefault(line[label], {})[place] = values
        except ValueError:
            bad += 1
    return by_algorithm, extra, bad


def _curve(run: str, label: str, cells: Cells, extra: tuple[str, ...]) -> Curve:
    places = np.array(list(cells))
    seeds, row = np.unique(places[:, 0], return_inverse=True)
    iterations, column = np.unique(places[:, 1], return_inverse=True)
    names = (*NUMBERS, *extra)
    values = np.full((len(names), len(seeds), len(iterations)), np.nan)
    values[:, row, column] = np.array(list(cells.values())).T
    by_name = dict(zip(names, values, strict=True))
    across: dict[str, Array] = {"iteration": iterations}
    for name in COSTS:
        if name not in ADDED or np.isfinite(by_name[name]).any():
            across[name] = np.fmax.reduce(by_name[name], axis=0)
    shown = (*METRICS, *extra)
    metrics = {name: by_name[name] for name in shown if np.isfinite(by_name[name]).any()}
    return Curve(run, label, seeds.tolist(), across, metrics)
