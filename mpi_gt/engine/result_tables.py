"""The tables of a Result, by the names of `mpi_gt.load`; every rank imports this module."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from ..results.runs import Outputs, Runs


class ResultTables:
    """The part that a Result has in common with the runs that `mpi_gt.load` reads; on root only."""

    if TYPE_CHECKING:
        outputs: dict[str, Any]
        metrics: list[dict[str, Any]]
        facts: dict[str, Any]
        directory: Path | None

    @cached_property
    def runs(self) -> "Runs":
        """The run as `mpi_gt.load` returns those of directories: tables, outputs and a figure.

        Of a run on MPI ranks without `out`, `final` has the output of this node.
        """
        if not self.facts:
            raise UserError("only root has the tables of a run: ask on rank 0")
        from ..results.record import Record
        from ..results.runs import Runs

        out = "" if self.directory is None else str(self.directory)
        return Runs([Record(out, self.facts, self.metrics, None if out else self.outputs)])

    @property
    def metrics_table(self) -> "DataFrame":
        """The metrics as a pandas table, with the columns of `mpi_gt.load(...).metrics`."""
        return self.runs.metrics

    @property
    def summary(self) -> "DataFrame":
        """One row per algorithm, as in `mpi_gt.load(...).summary`."""
        return self.runs.summary

    @property
    def final(self) -> "Outputs":
        """The outputs in the order of `summary`."""
        return self.runs.final

    @property
    def config(self) -> list[dict[str, Any]]:
        """The configuration, once per row of `summary`."""
        return self.runs.config

    def plot(self, metric: str = "gap", x: str = "iteration", ax: "Axes | None" = None) -> "Axes":
        """Draw a metric of each algorithm and return the matplotlib axes."""
        return self.runs.plot(metric, x, ax)
