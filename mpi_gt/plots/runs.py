"""Figure of the runs that `mpi_gt.load` returns: one metric of all of them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import plain
from .metrics import ACROSS, LABELS, draw_line, finish_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMES = 20  # lines that a legend can hold


def draw_lines(
    lines: Mapping[str, list[dict[str, Any]]], metric: str, across: str, axes: "Axes | None"
) -> "Axes":
    """Draw rows of metrics by the name of their line; without axes, in a new figure of pyplot.

    pyplot, for a notebook shows its figures only.
    """
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(figsize=(7.2, 4.4), layout="constrained")
    assert axes is not None
    for number, (name, rows) in enumerate(lines.items()):
        draw_line(axes, _whole(rows), across, metric, number, plain(name), shade=0.12)
    finish_axes(axes, ACROSS[across], LABELS.get(metric, metric))
    if len(lines) <= MOST_NAMES:
        axes.legend(fontsize=8)
    return axes


def _whole(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows without a last measurement that lacks seeds: the run was cut off there."""
    seeds = len({row["seed"] for row in rows})
    at_end = [row for row in rows if row["iteration"] == rows[-1]["iteration"]]
    return rows if len(at_end) == seeds else rows[: -len(at_end)]
