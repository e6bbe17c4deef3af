"""The console that all tables are printed on, and the formats of numbers in them."""

import math
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Build a table whose first column is text and whose other columns are numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title))
    for number, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def duration(seconds: float) -> str:
    """Format a time in seconds, milliseconds or microseconds, with its unit."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.2g} µs"


def rate(bytes_per_second: float | None) -> str:
    """Format a bandwidth in MB/s; None and infinity mean that the fit found no limit."""
    if bytes_per_second is None or math.isinf(bytes_per_second):
        return "no limit seen"
    return f"{bytes_per_second / 1e6:,.0f} MB/s"


def counted(count: int, noun: str) -> str:
    """Format a count with its noun: "1 seed", "5 seeds"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


TERMINAL = "MPI_GT_TERMINAL"
"""Environment variable in which the front end tells its ranks the width of its terminal."""


def on_terminal() -> bool:
    """Return whether a person reads the output on a terminal.

    Standard output alone does not decide: Open MPI gives its ranks a pseudo-terminal there.
    """
    return TERMINAL in os.environ or (sys.stdout.isatty() and sys.stderr.isatty())


def console(file: TextIO) -> "Console":
    """Build the rich console for a stream: as wide as the terminal, or 100 columns in a pipe."""
    from rich.console import Console

    options: dict[str, Any] = {}
    if TERMINAL in os.environ:
        options = {"force_terminal": True, "width": int(os.environ[TERMINAL])}
    elif not on_terminal():
        options = {"force_terminal": False, "width": 100}
    return Console(file=file, **options)
