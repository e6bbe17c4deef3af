"""Runs: one or many runs as tables (pandas, imported when asked for), arrays and a figure."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..rundir.metrics_csv import COLUMNS, METRICS
from ..spec import nearest
from .find import Where, find_runs
from .record import PER_RUN, Record, Row, read_record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

NUMBERS = (*METRICS, *PER_RUN, "final_gap", "final_loss", "test_accuracy")
ACROSS = ("iteration", "seconds", "bytes")
SAME_AS_ANOTHER = ("directory", "algorithm", "seeds", "seed", "stacked", "exchange")
"""Columns that do not tell two methods apart, unless nothing else does."""


class Runs:
    """The results of one or many runs, of finished ones and of those that are not.

    Row i of `summary` is one algorithm in one run directory; `final[i]` and `config[i]` belong to
    it. What is read from the directories stays as it was then: load them again for more.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = list(records)
        self._places = [(record, label) for record in self._records for label in record.labels]

    @property
    def directories(self) -> list[Path]:
        """The run directories."""
        return [Path(record.directory) for record in self._records if record.directory]

    @cached_property
    def metrics(self) -> "DataFrame":
        """Every measurement: a tidy table with one row per run, algorithm, seed and iteration.

        Its columns are `directory`, `method` and the options of the methods (`lr`, ...), `graph`
        and its options (`graph.p`), `n`, `problem` and its options (`problem.spread`), further
        options of the run, and the columns of metrics.csv.
        """
        described = [(record.rows_of(label), record.describe(label)) for record, label in self]
        own = dict.fromkeys(name for rows, _ in described for row in rows[:1] for name in row)
        names = columns_of(columns for _, columns in described)
        columns: dict[str, list[Any]] = {
            name: [] for name in [*(each for each in names if each not in own), *(own or COLUMNS)]
        }
        for rows, constant in described:
            for name, column in columns.items():
                if name in own:
                    column += [row.get(name) for row in rows]
                else:
                    column += [constant.get(name)] * len(rows)
        table = pandas().DataFrame(columns)
        numbers = [name for name in own if name not in ("algorithm", "seed", "iteration", "bytes")]
        return table.astype(dict.fromkeys(numbers, float))

    @cached_property
    def summary(self) -> "DataFrame":
        """One row per algorithm of each run: what it was, how it ended, and its metrics.

        A metric is the mean over seeds and the last fifth of the logged iterations, as in
        summary.json; `gap_se` is the standard error of that mean over seeds, `final_gap` the mean
        at the last iteration. Of an algorithm that diverged, `error` says when.
        """
        rows = self.summary_rows
        table = pandas().DataFrame(rows, columns=columns_of(rows))
        numbers = [name for name in table if name in NUMBERS or str(name).endswith("_se")]
        return table.astype(dict.fromkeys(numbers, float))

    @cached_property
    def summary_rows(self) -> list[Row]:
        """The rows of `summary` as dictionaries, which needs no pandas."""
        return [record.summarise(label) for record, label in self._places]

    @property
    def final(self) -> "Outputs":
        """The outputs: `final[i]` is x of row i of `summary`, (nodes, seeds, dim), or None."""
        return Outputs(self._places)

    @property
    def config(self) -> list[dict[str, Any]]:
        """The configurations: `config[i]` is that of the run in row i of `summary`."""
        return [record.config for record, _ in self._places]

    def plot(self, metric: str = "gap", x: str = "iteration", ax: "Axes | None" = None) -> "Axes":
        """Draw a metric of every algorithm and run, and return the matplotlib axes.

        A line is the mean over seeds, its band reaches from the smallest seed to the largest. `x`
        is iteration, seconds or bytes; without `ax` a new figure is made.
        """
        own = ("algorithm", "seed", *ACROSS)
        first = [row for record in self._records for row in record.rows[:1]]
        known = dict.fromkeys(name for row in first for name in row if name not in own)
        if not known:
            raise UserError("no run has measured anything yet")
        if metric not in known:
            raise UserError(f"there is no metric '{metric}'{nearest(str(metric), known)}")
        if x not in ACROSS:
            raise UserError(f"x cannot be '{x}'{nearest(str(x), ACROSS)}")
        lines = {
            name: rows
            for name, (record, label) in zip(self.names, self._places, strict=True)
            if (rows := [row for row in record.rows_of(label) if row.get(metric) is not None])
        }
        if not lines:
            raise UserError(f"no run has measured {metric}")
        from .. import plots

        if not plots.available():
            raise UserError("a figure needs matplotlib: pip install 'mpi-gt[plot]'")
        from ..plots.runs import draw_lines

        return draw_lines(lines, metric, x, ax)

    @property
    def names(self) -> list[str]:
        """A name per row of `summary`: the method, and what tells it from the others."""
        rows = [record.describe(label) for record, label in self._places]
        names = dict.fromkeys(name for row in rows for name in row)
        values = {name: {repr(row[name]) for row in rows if name in row} for name in names}
        telling = [name for name in names if len(values[name]) > 1]
        telling = [
            name
            for name in telling
            if name not in ("method", *SAME_AS_ANOTHER)
            and not (name.startswith("graph.") and "graph" in telling)
        ]
        described = [
            ", ".join([row["method"], *(f"{name} {_shown(row[name])}" for name in telling
                                        if row.get(name) is not None)])
            for row in rows
        ]  # fmt: skip
        return [
            name if described.count(name) == 1 else f"{name} ({row['directory'] or number})"
            for number, (name, row) in enumerate(zip(described, rows, strict=True), 1)
        ]

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[tuple[Record, str]]:
        return iter(self._places)

    def __repr__(self) -> str:
        count = f"{len(self)} {'row' if len(self) == 1 else 'rows'}"
        places = [str(path) for path in self.directories]
        shown = ", ".join(places[:3]) + (f", ... ({len(places)})" if len(places) > 3 else "")
        return f"<Runs: {count}{' of ' if shown else ''}{shown}>"


class Outputs(Sequence[Any]):
    """The outputs of runs, each read from its file when it is asked for."""

    def __init__(self, places: Sequence[tuple[Record, str]]) -> None:
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [record.output(label) for record, label in self._places[index]]
        record, label = self._places[int(index)]
        return record.output(label)


def load(where: Where) -> Runs:
    """Return the runs in a directory, in several, or in all that match a pattern."""
    return Runs(map(read_record, find_runs(where)))


def columns_of(rows: Iterable[Row]) -> list[str]:
    """Return the columns of a table: the methods and their options, then all others."""
    names: dict[str, int] = {}
    for row in rows:
        place = 0
        for name in row:
            # three parts of a row: the method, its problem and graph, and the measurements
            place += name in ("graph", "algorithm")
            names[name] = max(place, names.get(name, 0))
    return sorted(names, key=names.__getitem__)


def pandas() -> ModuleType:
    """Return pandas; raise UserError if it is not installed."""
    try:
        import pandas
    except ImportError:
        raise UserError("tables need pandas: pip install 'mpi-gt[pandas]'") from None
    module: ModuleType = pandas
    return module


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
