"""Tables with a header file: NAME.csv, and NAME.columns.json with unit and meaning of each column.

A reader of the table needs neither this file nor its content to stay as it is: a column keeps its
name, whatever its unit is called.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .atomic import write_csv, write_json


class Column(NamedTuple):
    """What a column holds."""

    unit: str
    """Such as "s" or "bytes/s"; "1" of counts and ratios, "" of names and flags."""
    meaning: str


def write_table(
    path: Path, columns: Mapping[str, Column], rows: Iterable[Mapping[str, Any]]
) -> Path:
    """Write a table and its header file; return the path of the latter."""
    write_csv(path, tuple(columns), rows)
    header = path.with_name(f"{path.stem}.columns.json")
    listed = [{"name": name, **column._asdict()} for name, column in columns.items()]
    write_json(header, {"table": path.name, "columns": listed})
    return header
