"""The table of `mpi-gt status`."""

import sys
from typing import TYPE_CHECKING

from ..algorithms import short_name
from .console import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..rundir.run_state import Points, RunState


def show_states(states: "Sequence[RunState]") -> None:
    """Show a table with one row per run, and below it the note on each run that has one."""
    from rich.table import Table
    from rich.text import Text

    rows = [status_row(state) for state in states]
    table = Table()
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row.values()))
    output = console(sys.stdout)
    output.print(table)
    for state in states:
        if state.note:
            note = f"{state.run}: {state.note}"
            output.print(note, markup=False, highlight=False, soft_wrap=True)


def status_row(state: "RunState") -> dict[str, str]:
    """Return one line of the table, by column."""
    saved = state.checkpoint
    return {
        "run": state.run,
        "status": state.status,
        "iteration": _place(state),
        "gap": "-" if state.gap is None else f"{state.gap:.3e}",
        "left": time_text(state.seconds_left),
        "checkpoint": f"{short_name(saved['algorithm'])}, {saved['iteration']}" if saved else "-",
    }


def _place(state: "RunState") -> str:
    """Return the iteration out of all, of a comparison with its method; of a sweep, the points."""
    if state.points is not None:
        return points_text(state.points)
    shown = f"{state.iteration}/{state.iterations}"
    labels, label = state.algorithms, state.algorithm
    if len(labels) < 2:
        return shown
    number = labels.index(label) + 1 if label in labels else 0
    return f"{short_name(label or '-')} {shown} ({number} of {len(labels)})"


def points_text(points: "Points") -> str:
    """Return how many points of a sweep are done, "3 of 18 points"."""
    return f"{points.done} of {points.total} points"


def time_text(left: float | None) -> str:
    """Return the time left, "95 s" or "12 min"; "-" if it is not known."""
    if left is None:
        return "-"
    return f"{left:.0f} s" if left < 600 else f"{left / 60:.0f} min"
