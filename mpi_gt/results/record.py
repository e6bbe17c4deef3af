"""One run as its files tell it: the facts, the measurements, and what describes each method."""

import csv
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..array_files import read_arrays
from ..config import RunConfig
from ..errors import UserError
from ..files import LARGEST_TEXT, require_regular
from ..rundir.metrics_csv import COLUMNS, METRICS, parse_rows
from ..rundir.run_json import require_facts
from ..rundir.status import read_status
from ..rundir.summary import mean_of, summarise, tail_by_seed
from .options import spelled_options

Array = NDArray[Any]
Row = dict[str, Any]

PLAIN = ("weights", "iterations", "seeds", "dtype", "exchange", "stacked")
"""Options of a run that are columns of every table."""
RARE = ("matchings", "x1", "straggler", "channel")
"""Options of a run that are columns where a run has them."""
PER_RUN = ("seconds_per_iteration", "bytes_per_iteration", "first_below_1e-3")
RESERVED = {
    *COLUMNS, *PLAIN, *RARE, *PER_RUN, *(f"{metric}_se" for metric in METRICS), "directory",
    "method", "graph", "n", "problem", "status", "error", "final_gap", "final_loss",
    "test_accuracy",
}  # fmt: skip
"""The columns of the tables: an option of a method with such a name is `algorithm.NAME`."""


@dataclass
class Record:
    """One run: the content of run.json, the rows of metrics.csv, and the outputs by algorithm."""

    directory: str  # "": a run that wrote no files
    facts: dict[str, Any]
    rows: list[Row]
    outputs: Mapping[str, Array] | None = field(default=None, repr=False)
    """None: they are in final.npz, if the run is finished."""

    @property
    def config(self) -> dict[str, Any]:
        """The configuration as run.json has it."""
        config: dict[str, Any] = self.facts.get("config", {})
        return config

    @cached_property
    def options(self) -> dict[str, Any]:
        """All options of problem, graph and algorithms, also of a run that does not list them."""
        if "options" in self.facts:
            listed: dict[str, Any] = self.facts["options"]
            return listed
        known = {each.name for each in fields(RunConfig)}
        given = {key: value for key, value in self.config.items() if key in known}
        try:
            return spelled_options(RunConfig.of(given), self.facts.get("problem"))
        except UserError as error:  # a class of the user's, for one, that is not here
            raise UserError(f"{self.directory}: {error}") from None

    @property
    def labels(self) -> list[str]:
        """The algorithms, as metrics.csv names them."""
        return list(self.options["algorithm"])

    def rows_of(self, label: str) -> list[Row]:
        """Return the measurements of one algorithm."""
        return [row for row in self.rows if row["algorithm"] == label]

    def describe(self, label: str) -> Row:
        """Return the columns that say which method ran on which problem and graph."""
        method, problem = self.options["algorithm"][label], self.options["problem"]
        graph = self.options["graph"]
        described: Row = {"directory": self.directory, "method": method["name"]}
        for name, value in method["options"].items():
            described[f"algorithm.{name}" if name in RESERVED else name] = value
        described["graph"] = self.config.get("graph") or graph["name"]
        described.update({f"graph.{name}": value for name, value in graph["options"].items()})
        nodes = self.facts.get("graph", {}).get("nodes")
        described["n"] = self.config.get("n") or nodes
        described["problem"] = problem["name"]
        described.update({f"problem.{name}": value for name, value in problem["options"].items()})
        described.update({name: self.config.get(name) for name in PLAIN})
        described["weights"] = described["weights"] or "metropolis"
        described.update({name: self.config[name] for name in RARE if self.config.get(name)})
        return {**described, "algorithm": label}

    def summarise(self, label: str) -> Row:
        """Return one row: the description, how the run ended, and the summary of its metrics."""
        status, error = self._ending(label)
        row: Row = {
            **self.describe(label),
            "seed": self.config.get("seed", 0),
            "status": status,
            "error": error,
        }
        measured = self.rows_of(label)
        result = self.facts.get("results", {}).get(label, {})
        if status == "diverged" or not measured:
            return row
        last = measured[-1]
        row["iteration"] = last["iteration"]
        if last["iteration"]:
            pace = {"seconds_per_iteration": last["seconds"] / last["iteration"], **result}
            row.update(summarise(measured, {label: pace})[label])
        names = [name for name in measured[0] if name not in ("algorithm", "seed", "iteration")]
        for metric in (name for name in names if name not in ("seconds", "bytes")):
            row[f"{metric}_se"] = standard_error(tail_by_seed(measured, label, metric))
        at_end = [each for each in measured if each["iteration"] == last["iteration"]]
        for metric in ("gap", "loss"):
            row[f"final_{metric}"] = mean_of([each[metric] for each in at_end])
        row["test_accuracy"] = result.get("test_accuracy")
        return row

    def _ending(self, label: str) -> tuple[str, str | None]:
        """Return how an algorithm ended: finished, diverged, or else the status of the run."""
        result = self.facts.get("results", {}).get(label)
        if result is not None:
            error = result.get("error")
            return ("diverged" if "error" in result else "finished"), error
        if not self.directory:
            return str(self.facts.get("status", "unknown")), None
        status, note = read_status(Path(self.directory), self.facts)
        # of a comparison that was stopped or has failed, a later algorithm has not begun
        return status, self.facts.get("error") or note or None

    def output(self, label: str) -> Array | None:
        """Return the final x of all nodes, (nodes, seeds, dim); None if the run has none."""
        if self.outputs is not None:
            return self.outputs.get(label)
        file = Path(self.directory, "final.npz")
        if not file.exists():
            return None
        name = "x" if self.config.get("algorithms") is None else label
        array = read_arrays(file, [name]).get(name)
        return None if array is None else array.astype(self.config.get("dtype", array.dtype))


def read_record(directory: Path) -> Record:
    """Return the run in a directory; raise UserError if its files are damaged."""
    facts = require_facts(directory, ("config.iterations",))
    if not facts:
        raise UserError(f"{directory} holds no run: there is no run.json to read")
    return Record(str(directory), facts, _read_rows(directory / "metrics.csv"))


def _read_rows(path: Path) -> list[Row]:
    """Return the rows of a metrics.csv up to its last complete line; none if there is no file."""
    if not os.path.lexists(path):
        return []
    require_regular(path, LARGEST_TEXT)
    try:
        content = path.read_bytes()
        rows = parse_rows(content[: content.rfind(b"\n") + 1])
        if rows and not set(COLUMNS) <= set(rows[0]):
            raise ValueError("it lacks columns")
        return rows
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError, csv.Error) as error:
        raise UserError(f"{path} is damaged: {error}") from None


def standard_error(values: Iterable[float]) -> float | None:
    """Return the standard error of the mean over seeds; None for fewer than two."""
    numbers = list(values)
    if len(numbers) < 2 or not all(map(math.isfinite, numbers)):
        return None
    mean = math.fsum(numbers) / len(numbers)
    squares = math.fsum((number - mean) ** 2 for number in numbers)
    return math.sqrt(squares / (len(numbers) - 1) / len(numbers))
