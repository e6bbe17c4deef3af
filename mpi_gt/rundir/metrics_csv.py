"""metrics.csv: its columns, and the readers of its rows (`curves` reads whole curves)."""

import csv
import io
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

TAIL = 20_000  # bytes that are read from the end of metrics.csv


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


COLUMNS = MetricsRow._fields
METRICS = COLUMNS[3:-2]


class MetricsBlock(NamedTuple):
    """The rows of one measurement, which differ only in the seed and the metrics."""

    algorithm: str
    seeds: Sequence[int]
    iteration: int
    metrics: Sequence[Sequence[float] | None]
    """In the order of METRICS, one number per seed; None: the run has no such metric."""
    seconds: float
    bytes: int

    def rows(self) -> Iterator[MetricsRow]:
        """Return the rows, one per seed."""
        return map(
            MetricsRow,
            repeat(self.algorithm),
            self.seeds,
            repeat(self.iteration),
            *(repeat(None) if values is None else values for values in self.metrics),
            repeat(self.seconds),
            repeat(self.bytes),
        )


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a metrics.csv, every cell as text."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


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


def read_last_rows(path: Path) -> list[dict[str, str]]:
    """Return the complete rows among the last TAIL bytes of a run directory's metrics.csv."""
    try:
        with (path / "metrics.csv").open("rb") as file:
            names = file.readline().decode().strip().split(",")
            begin = file.tell()
            file.seek(max(begin, os.fstat(file.fileno()).st_size - TAIL))
            starts_inside_row = file.tell() > begin
            lines = file.read().decode(errors="replace").rpartition("\n")[0].splitlines()
    except OSError:
        return []
    rows = []
    for line in lines[1:] if starts_inside_row else lines:
        cells = line.rsplit(",", len(names) - 1)
        if len(cells) == len(names):
            rows.append(dict(zip(names, cells, strict=True)))
            rows[-1]["algorithm"] = rows[-1].get("algorithm", "").strip('"')
    return rows


def parse_rows(content: bytes) -> list[dict[str, Any]]:
    """Return the rows in the text of a metrics.csv, with numbers as numbers."""
    table = csv.DictReader(io.StringIO(content.decode(), newline=""))
    return [{name: _number(name, cell) for name, cell in row.items()} for row in table]


def _number(name: str, cell: str) -> Any:
    if name == "algorithm":
        return cell
    if name in ("seed", "iteration", "bytes"):
        return int(cell)
    return float(cell) if cell else None
