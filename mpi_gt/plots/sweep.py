"""Figures of a sweep over a grid: one per two axes, with a panel per method."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..algorithms import full_name
from . import plain, save
from .metrics import DASHES, MARKERS

MOST_FIGURES = 15
MOST_LINES = 8  # more values than that are a heat map
LEGEND = "gap, mean over the last fifth and over seeds"


class AxisLike(Protocol):
    """An axis of the grid: its name and its values."""

    @property
    def name(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...]: ...
    @property
    def numbers(self) -> list[float] | None: ...


class _Sorted:
    """An axis with its numbers in ascending order."""

    def __init__(self, axis: AxisLike) -> None:
        self.name = axis.name
        self.values = axis.values if axis.numbers is None else tuple(sorted(axis.values, key=float))
        self.numbers = None if axis.numbers is None else sorted(axis.numbers)


def draw_sweep_grid(
    directory: Path, axes: Sequence[AxisLike], rows: Sequence[Mapping[str, Any]]
) -> list[Path]:
    """Draw sweep-A-B.png for every two axes that have several values; for one axis sweep-A.png.

    Where the grid has more axes, the smallest gap along these is shown.
    """
    wide = [axis for axis in axes if len(axis.values) > 1]
    if len(wide) < 2:
        return [_draw_one(directory, axis, rows) for axis in wide or axes[:1]]
    pairs = list(itertools.combinations(wide, 2))[:MOST_FIGURES]
    return [_draw_two(directory, *pair, rows, len(wide) > 2) for pair in pairs]


def _figure(panels: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    across = min(panels, 3)
    down = -(-panels // across)
    figure = Figure(figsize=(1.2 + 4.2 * across, 0.8 + 3.4 * down), dpi=130, layout="constrained")
    places = figure.subplots(down, across, squeeze=False).flatten()
    for spare in places[panels:]:
        spare.set_axis_off()
    return figure, list(places[:panels])


def _smallest(
    rows: Sequence[Mapping[str, Any]], method: str, *where: tuple[str, str]
) -> float | None:
    """Return the smallest gap of a method's finished points with these values on axes."""
    gaps = [
        row["gap"]
        for row in rows
        if row["method"] == method
        and row["status"] == "finished"
        and row.get("gap") is not None
        and all(_same(row[name], value) for name, value in where)
    ]
    return min(gaps, default=None)


def _same(cell: Any, value: str) -> bool:
    try:
        return str(cell) == value or float(cell) == float(value)
    except ValueError:
        return False


def _methods(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def _draw_one(directory: Path, axis: AxisLike, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Draw the gap along one axis, a line per method."""
    figure, (panel,) = _figure(1)
    missing = False
    for number, method in enumerate(_methods(rows)):
        gaps = [_smallest(rows, method, (axis.name, value)) for value in axis.values]
        _draw_values(panel, axis, gaps, number, plain(full_name(method)))
        missing |= None in gaps
    _label(panel, axis, missing)
    panel.set_ylabel(LEGEND, fontsize=9)
    panel.legend(fontsize=8)
    return save(figure, directory / f"sweep-{_file_name(axis)}.png")


def _draw_two(
    directory: Path,
    one: AxisLike,
    other: AxisLike,
    rows: Sequence[Mapping[str, Any]],
    more: bool,
) -> Path:
    """Draw the gap over two axes: lines along a numeric one, else a heat map, per method."""
    if one.numbers is None and other.numbers is not None:
        one, other = other, one
    methods = _methods(rows)
    figure, panels = _figure(len(methods))
    one, other = _Sorted(one), _Sorted(other)
    gaps = {
        method: [
            [_smallest(rows, method, (one.name, x), (other.name, y)) for x in one.values]
            for y in other.values
        ]
        for method in methods
    }
    lines = one.numbers is not None and len(other.values) <= MOST_LINES and len(one.values) > 2
    known = [gap for rows_of in gaps.values() for row in rows_of for gap in row if gap is not None]
    if lines:
        _draw_line_panels(panels, one, other, gaps)
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=8)
        for panel in panels:
            panel.set_ylim(*_span(known))
    else:
        _draw_maps(figure, panels, one, other, gaps, known)
    title = LEGEND + ("; the smallest along all other axes" if more else "")
    figure.suptitle(title, fontsize=10)
    return save(figure, directory / f"sweep-{_file_name(one)}-{_file_name(other)}.png")


def _span(known: Sequence[float]) -> tuple[float, float]:
    """Return limits of a logarithmic axis that hold all values."""
    positive = [gap for gap in known if gap > 0]
    low, high = min(positive, default=1e-3), max(positive, default=1)
    return low / 1.6, high * 1.6


def _draw_line_panels(
    panels: Sequence[Any], one: AxisLike, other: AxisLike, gaps: Mapping[str, Any]
) -> None:
    for panel, (method, table) in zip(panels, gaps.items(), strict=True):
        for number, (value, row) in enumerate(zip(other.values, table, strict=True)):
            _draw_values(panel, one, row, number, plain(f"{other.name} {value}"))
        _label(panel, one, any(None in row for row in table))
        panel.set_title(plain(full_name(method)), fontsize=9)


def _draw_values(
    panel: Any, axis: AxisLike, gaps: Sequence[float | None], number: int, name: str
) -> None:
    places = axis.numbers or list(range(len(axis.values)))
    points = sorted(
        (x, gap) for x, gap in zip(places, gaps, strict=True) if gap is not None and gap > 0
    )
    panel.plot(
        [x for x, _ in points],
        [gap for _, gap in points],
        label=name,
        marker=MARKERS[number % len(MARKERS)],
        color=f"C{number % 10}",
        linestyle=DASHES[number % len(DASHES)] if axis.numbers else "none",
        markersize=5,
        linewidth=1.3,
    )


def _label(panel: Any, axis: AxisLike, gaps: bool) -> None:
    """Label the x axis, logarithmic where its values span a decade; `gaps`: points are missing."""
    panel.set_yscale("log")
    panel.grid(visible=True, which="major", alpha=0.3)
    panel.set_xlabel(plain(axis.name) + (" (missing points diverged)" if gaps else ""), fontsize=9)
    panel.tick_params(which="both", labelsize=8)
    numbers = axis.numbers
    if numbers is None:
        panel.set_xticks(range(len(axis.values)), [plain(value) for value in axis.values])
    elif min(numbers) > 0 and max(numbers) / min(numbers) >= 10:
        panel.set_xscale("log")
    elif len(numbers) <= 8:
        panel.set_xticks(numbers, list(axis.values))


def _draw_maps(
    figure: Any,
    panels: Sequence[Any],
    one: AxisLike,
    other: AxisLike,
    gaps: Mapping[str, Any],
    known: Sequence[float],
) -> None:
    """Draw a heat map per method, all with the same colours; white cells diverged."""
    from matplotlib.colors import LogNorm

    low, high = _span(known)
    norm, image = LogNorm(low, high), None
    for panel, (method, table) in zip(panels, gaps.items(), strict=True):
        cells = np.array([[np.nan if gap is None else gap for gap in row] for row in table])
        image = panel.imshow(cells, norm=norm, cmap="viridis_r", origin="lower", aspect="auto")
        panel.set_xticks(range(len(one.values)), [plain(value) for value in one.values])
        panel.set_yticks(range(len(other.values)), [plain(value) for value in other.values])
        panel.tick_params(labelsize=8)
        if len(one.values) > 6 or max(map(len, one.values)) * len(one.values) > 40:
            panel.tick_params(axis="x", labelrotation=40)
        panel.set_xlabel(plain(one.name), fontsize=9)
        panel.set_ylabel(plain(other.name), fontsize=9)
        panel.set_title(plain(full_name(method)), fontsize=9)
        if cells.size <= 60:
            _write_values(panel, cells, norm)
    if image is not None:
        figure.colorbar(image, ax=list(panels), label="gap (white: diverged)", shrink=0.9)


def _write_values(panel: Any, cells: Any, norm: Any) -> None:
    for (row, column), gap in np.ndenumerate(cells):
        if math.isfinite(gap):
            colour = "white" if norm(gap) > 0.5 else "black"
            panel.text(
                column, row, f"{gap:.1e}", ha="center", va="center", fontsize=7, color=colour
            )


def _file_name(axis: AxisLike) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in axis.name)
