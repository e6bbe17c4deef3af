"""metrics.csv: its columns, and the readers of its rows (`curves` reads whole curves).

Every file has the columns of MetricsRow. After them come those that only some runs have:
`suboptimality` where f* is known, and the problem's own metrics.
"""

import csv
import io
import os
import unicodedata
from collections import defaultdict, namedtuple
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import repeat
from keyword import iskeyword
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..errors import UserError
from ..files import require_regular

TAIL = 20_000  # bytes that are read from the end of metrics.csv
LONGEST_ROWS = 1000  # bytes of two rows
LONGEST_TAIL = 1 << 26  # bytes that are read at most


class MetricsRow(NamedTuple):
    """One row: algorithm, seed and iteration, then the metrics, then the cost so far."""

    algorithm: str
    seed: int
    iteration: int
    loss: float | None
    grad_norm2: float | None
    consensus: float | None
    gap: float | None
    tracking: float | None
    accuracy: float | None
    seconds: float
    bytes: int
    gradients: int | None = None


COLUMNS = MetricsRow._fields
COSTS = COLUMNS[-3:]
METRICS = COLUMNS[3:-3]
WHOLE = ("seed", "iteration", "bytes", "gradients")
ADDED = ("gradients",)
"""The columns that former versions did not write."""
SUBOPTIMALITY = "suboptimality"
"""The column of f(xbar) - f*, of runs whose f* is known."""
RESERVED = (
    *COLUMNS,
    SUBOPTIMALITY,
    "error",
    "test_accuracy",
    "seconds_per_iteration",
    "bytes_per_iteration",
)
"""Names that a problem's own metrics must not have: of columns, and of results beside them."""


def is_column_name(name: Any) -> bool:
    """Return whether a column beyond the known ones may have this name."""
    identifier = isinstance(name, str) and name.isidentifier() and not iskeyword(name)
    # Python takes two names for one if they differ in the form of a letter only
    plain = identifier and unicodedata.normalize("NFKC", name) == name
    return plain and not name.startswith("_") and len(name) <= 64


def extra_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the column names that are not in every metrics.csv."""
    return tuple(name for name in names if name not in COLUMNS)


@cache
def row_type(extra: tuple[str, ...]) -> Any:
    """Return the class of rows with these columns after the known ones."""
    if not extra:
        return MetricsRow
    return namedtuple("MetricsRow", [*COLUMNS, *extra], defaults=[None] * (1 + len(extra)))


class MetricsBlock(NamedTuple):
    """The rows of one measurement, which differ only in the seed and the metrics."""

    algorithm: str
    seeds: Sequence[int]
    iteration: int
    metrics: Sequence[Sequence[float] | None]
    """In the order of METRICS, one number per seed; None: the run has no such metric."""
    seconds: float
    bytes: int
    gradients: int
    extra: Sequence[tuple[str, Sequence[float] | None]] = ()
    """The columns after the known ones: each name, and one number per seed."""

    def rows(self) -> Iterator[Any]:
        """Return the rows, one per seed."""
        return map(
            row_type(tuple(name for name, _ in self.extra)),
            repeat(self.algorithm),
            self.seeds,
            repeat(self.iteration),
            *(repeat(None) if values is None else values for values in self.metrics),
            repeat(self.seconds),
            repeat(self.bytes),
            repeat(self.gradients),
            *(repeat(None) if values is None else values for _, values in self.extra),
        )


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a metrics.csv, every cell as text; raise UserError if it is damaged."""
    require_regular(path)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(lines_of(file)))
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    for number, row in enumerate(rows, 1):
        sound = set(COLUMNS) <= {*row, *ADDED} and all(map(is_column_name, extra_columns(row)))
        if not sound or not all(map(_is_sound, row, row.values())):
            raise UserError(f"{path} is damaged: row {number} is not complete, or not numeric")
    return rows


def lines_of(file: IO[str]) -> Iterator[str]:
    """Return the lines of a file; a line that never ends is cut, so that csv refuses it."""
    return iter(lambda: file.readline(2 * csv.field_size_limit()), "")


def _is_sound(name: str, cell: str | None) -> bool:
    """Return whether a cell holds what its column says."""
    if cell is None or name == "algorithm":
        return cell is not None
    empty = cell == "" and name not in ("seed", "iteration", "bytes")
    return empty or is_number(cell, int if name in WHOLE else float)


def is_number(cell: str | None, kind: type[int] | type[float] = float) -> bool:
    """Return whether a cell is the text of a number, which may be nan or infinite."""
    try:
        number = kind(cell or "")
    except ValueError:
        return False
    return isinstance(number, float) or abs(number) < 2**63


def read_metrics(path: Path) -> dict[str, list[dict[str, str]]]:
    """Return the rows of a metrics.csv by algorithm."""
    rows = defaultdict(list)
    for row in read_rows(path):
        rows[row["algorithm"]].append(row)
    return dict(rows)


def read_last_row(path: Path) -> dict[str, str]:
    """Return the last complete row of a run directory's metrics.csv; empty if there is none."""
    rows = read_last_rows(path)
    return rows[-1] if rows else {}


def read_last_measurements(
    path: Path, seeds: int
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the rows of the last two measurements in a run directory; empty if there are none.

    A measurement has a row per seed. One that is being written has fewer, and is left out if there
    is another.
    """
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in read_last_rows(path, min(TAIL + LONGEST_ROWS * seeds, LONGEST_TAIL)):
        groups.setdefault((row["algorithm"], row["iteration"]), []).append(row)
    whole = [group for group in groups.values() if len(group) >= seeds] or list(groups.values())
    return whole[-2] if len(whole) > 1 else [], whole[-1] if whole else []


def read_last_rows(path: Path, tail: int = TAIL) -> list[dict[str, str]]:
    """Return the complete rows among the last bytes of a run directory's metrics.csv."""
    try:
        require_regular(path / "metrics.csv")
        with (path / "metrics.csv").open("rb") as file:
            names = file.readline(TAIL).decode(errors="replace").strip().split(",")
            begin = file.tell()
            file.seek(max(begin, os.fstat(file.fileno()).st_size - tail))
            starts_inside_row = file.tell() > begin
            lines = file.read().decode(errors="replace").rpartition("\n")[0].splitlines()
    except (OSError, UserError):
        return []
    rows = []
    for line in lines[1:] if starts_inside_row else lines:
        cells = line.rsplit(",", len(names) - 1)
        if len(cells) == len(names):
            row = dict(zip(names, cells, strict=True))
            if is_number(row.get("iteration"), int) and is_number(row.get("seconds")):
                rows.append({**row, "algorithm": row.get("algorithm", "").strip('"')})
    return rows


def parse_rows(content: bytes) -> list[dict[str, Any]]:
    """Return the rows in the text of a metrics.csv, with numbers as numbers."""
    table = csv.DictReader(io.StringIO(content.decode(), newline=""))
    return [{name: _number(name, cell) for name, cell in row.items()} for row in table]


def _number(name: str, cell: str) -> Any:
    if name == "algorithm":
        return cell
    if name in WHOLE and cell:
        return int(cell)
    return float(cell) if cell else None
