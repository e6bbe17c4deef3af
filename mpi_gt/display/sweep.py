"""Table of a sweep over a grid: the best point of each method."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..algorithms import full_name
from ..channels.channel import EMULATED
from .console import console, counted


class BestLike(Protocol):
    """The best point of a method: see `sweeps.outcome.Best`."""

    @property
    def method(self) -> str: ...
    @property
    def values(self) -> dict[str, str]: ...
    @property
    def gap(self) -> float: ...
    @property
    def loss(self) -> float | None: ...
    @property
    def edges(self) -> dict[str, str]: ...
    @property
    def overall(self) -> bool: ...


class AxisLike(Protocol):
    """An axis of the grid."""

    @property
    def name(self) -> str: ...


def show_sweep(
    config: Any,
    axes: Sequence[AxisLike],
    rows: Sequence[Mapping[str, Any]],
    best: Sequence[BestLike],
) -> None:
    """Show how many points ended how, and the best of each method and setting."""
    from rich.table import Table
    from rich.text import Text

    endings = Counter(row["status"] for row in rows)
    ended = ", ".join(f"{count} {status}" for status, count in endings.items())
    title = f"{counted(len(rows), 'point')}: {ended}; the smallest gap of each method"
    caption = "gap, loss: means over seeds and the last fifth of the logged iterations"
    several = len({each.method for each in best}) < len(best)
    if several:
        caption += "\n*: the smallest of all settings"
    if any(each.edges for each in best):
        caption += "\n(!): at the end of its range"
    table = Table(title=Text(title), caption=Text(caption))
    table.add_column("method", overflow="fold")
    for axis in axes:
        table.add_column(Text(axis.name), justify="right", overflow="fold")
    table.add_column("gap", justify="right")
    table.add_column("loss", justify="right")
    for each in best:
        cells = [
            each.values[axis.name] + (" (!)" if axis.name in each.edges else "") for axis in axes
        ]
        mark = "* " if several and each.overall else ""
        loss = "-" if each.loss is None else f"{each.loss:.4g}"
        table.add_row(
            Text(full_name(each.method)), *map(Text, cells), f"{mark}{each.gap:.3e}", loss
        )
    for method in dict.fromkeys(row["method"] for row in rows):
        if method not in {each.method for each in best}:
            table.add_row(Text(full_name(method)), *["-"] * len(axes), "no point finished", "-")
    output = console(sys.stdout)
    output.print(table)
    if config.channel is not None or any(axis.name.startswith("channel") for axis in axes):
        output.print(f"the channel is {EMULATED}", markup=False, highlight=False, soft_wrap=True)
