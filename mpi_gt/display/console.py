"""display.console."""

import math
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """A table whose first column is text and whose others are numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title))
    for number, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def duration(seconds: float) -> str:
    """With a unit that suits it."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.2g} us"


def rate(bytes_per_second: float | None) -> str:
    if bytes_per_second is None or math.isinf(bytes_per_second):
        return "no limit seen"
    return f"{bytes_per_second / 1e6:,.0f} MB/s"


TERMINAL = "MPI_GT_TERMINAL"
"""Set by `mpi-gt run -n` to the width of the terminal it runs on, which ranks cannot see."""


def on_terminal() -> bool:
    """Open MPI gives its ranks a pseudo-terminal as standard output, so both must be one."""
    return TERMINAL in os.environ or (sys.stdout.isatty() and sys.stderr.isatty())


def console(file: TextIO) -> "Console":
    from rich.console import Console

    options: dict[str, Any] = {}
    if TERMINAL in os.environ:
        options = {"force_terminal": True, "width": int(os.environ[TERMINAL])}
    elif not on_terminal():
        options = {"force_terminal": False, "width": 100}
    return Console(file=file, **options)
