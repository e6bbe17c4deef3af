"""Columns of metrics.csv that only some runs have: f(xbar) - f*, and the problem's metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..problems import Problem
from ..rundir.metrics_csv import SUBOPTIMALITY

Array = NDArray[Any]


class ExtraColumns:
    """The further columns of one run: their names, and this rank's share of their values.

    Each is a mean over the nodes: `suboptimality` of f_i(xbar) - f_i*, the others of what
    `Problem.metrics` returns.

    Parameters
    ----------
    own
        The names of the problem's own metrics, the same on all nodes.
    least
        The share of f* of this node (in a stacked run of every node, (nodes, 1)); None: unknown.
    """

    def __init__(self, own: Sequence[str] = (), least: Any = None) -> None:
        self._own = tuple(own)
        self._least = least
        self.names: tuple[str, ...] = self._own
        if least is not None:
            self.names = (SUBOPTIMALITY, *self._own)

    def values(self, problem: Any, xbar: Array, loss: Array) -> tuple[Array, ...]:
        """Return this rank's values at xbar, each of the shape of `loss`."""
        if not self.names:
            return ()
        values = [] if self._least is None else [loss - self._least]
        if self._own:
            metrics: Mapping[str, Array] = problem.metrics(xbar)
            values += [np.asarray(metrics[name], np.float64) for name in self._own]
        return tuple(values)


NO_EXTRA = ExtraColumns()


def metric_names(problem: Problem, x: Array) -> tuple[str, ...]:
    """Return the names of the metrics that a problem of the package has of its own, asked at x."""
    if type(problem).metrics is Problem.metrics:
        return ()
    return tuple(problem.metrics(x.astype(np.float64)))
