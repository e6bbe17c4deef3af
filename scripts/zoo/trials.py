"""Trials of all methods on four small problems: stepsizes, curves of the gap, and their rates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mpi_gt
from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.algorithms.stepsizes import stepsizes

Array = NDArray[Any]

NODES = 8
GRID = "1e-3..10"
"""The common grid of stepsizes, two per decade."""
LEAST = 1e-20
"""The least gap that counts: what is below it is the rounding of float64."""
NEAR = 10  # times its last value: there the fall of a gap has ended
FIRST_SEED, SEEDS = 0, 5  # those that are drawn
SEARCH_SEED, SEARCH_SEEDS = 1000, 5  # those of the search for stepsizes


@dataclass(frozen=True)
class Setting:
    """One of the four problems, with its graph."""

    title: str
    note: str
    problem: str
    graph: str
    iterations: int
    log_every: int  # a multiple of the intervals at which methods exchange

    @property
    def directed(self) -> bool:
        """True if only methods for directed graphs can run."""
        return self.graph.startswith("digraph")

    def takes(self, name: str) -> bool:
        """Return whether the method can run here."""
        return not self.directed or ALGORITHMS[name].graph == "directed"


LEAST_SQUARES = "huber:dim=10,threshold=1000"  # no residual reaches the kink of the Huber loss
UNDIRECTED, DIRECTED = "er:p=0.5,seed=1", "digraph:arcs=6,seed=1"

SETTINGS = (
    Setting(
        "strongly convex",
        "least squares without noise, all nodes with the same minimiser",
        f"{LEAST_SQUARES},noise=0",
        UNDIRECTED,
        iterations=300,
        log_every=5,
    ),
    Setting(
        "noisy",
        "the same with noise in the measurements",
        LEAST_SQUARES,
        UNDIRECTED,
        iterations=300,
        log_every=5,
    ),
    Setting(
        "non-convex",
        "a neural network, whose Hessian has negative eigenvalues at the start; each node has one "
        "row of data: nodes differ as much as they can, and a batch of one row has no noise",
        "mlp:hidden=3,features=3,classes=2,rows=8,split=label,batch=1,reg=0.1",
        UNDIRECTED,
        iterations=600,
        log_every=10,
    ),
    Setting(
        "directed",
        "least squares without noise, nodes with different minimisers, on a directed graph whose "
        "nodes hear and tell different numbers of others",
        f"{LEAST_SQUARES},noise=0,spread=0.5",
        DIRECTED,
        iterations=600,
        log_every=10,
    ),
)


@dataclass(frozen=True)
class Curve:
    """The gap of a method over the iterations, at one stepsize."""

    lr: float
    iterations: Array  # (points,), the first is 0
    gaps: Array  # (points, seeds)

    @property
    def mean(self) -> Array:
        """The mean over seeds."""
        return self.gaps.mean(axis=1)

    @property
    def score(self) -> float:
        """The mean of log10 over the iterations: the area below the curve, as it is drawn."""
        return float(np.log10(np.maximum(self.mean[1:], LEAST)).mean())

    @property
    def end(self) -> float:
        """The mean over seeds and over the last fifth of the measurements."""
        return float(self.mean[-max(1, len(self.mean) // 5) :].mean())

    @property
    def rate(self) -> float | None:
        """The mean factor per iteration until the gap is near its end; None if it never falls."""
        level = NEAR * max(self.end, LEAST)
        (near,) = np.nonzero(self.mean <= level)
        if len(near) == 0 or near[0] == 0:
            return None
        first = int(near[0])
        return float((self.mean[first] / self.mean[0]) ** (1 / self.iterations[first]))


@dataclass(frozen=True)
class Trial:
    """The best curve of a method in a setting."""

    curve: Curve | None  # None: it diverged on the seeds that are drawn
    lr: float
    at_edge: bool  # the best stepsize is the first or the last of the grid


def try_methods(
    names: Sequence[str], settings: Sequence[Setting] = SETTINGS, grid: str = GRID
) -> Iterator[tuple[str, list[Trial | None]]]:
    """Give each method with its trials, one per setting; None where the method cannot run."""
    for name in names:
        yield (
            name,
            [try_method(name, each, grid) if each.takes(name) else None for each in settings],
        )


def try_method(name: str, setting: Setting, grid: str = GRID) -> Trial:
    """Find the best stepsize of a method on the seeds of the search, and run it on the others."""
    searched = run(setting, name, grid, SEARCH_SEED, SEARCH_SEEDS)
    scores = {lr: curve.score for lr, curve in searched.items()}
    if not scores:
        raise SystemExit(f"zoo: {name} diverges at all stepsizes of the problem '{setting.title}'")
    best = min(scores, key=lambda lr: scores[lr])
    tried = stepsizes(grid, None)
    found = run(setting, name, repr(best), FIRST_SEED, SEEDS)
    return Trial(found.get(best), best, best in (tried[0], tried[-1]))


def run(setting: Setting, name: str, grid: str, seed: int, seeds: int) -> dict[float, Curve]:
    """Return the curves of a method by stepsize, without those that diverge."""
    result = mpi_gt.run(
        stacked=True,
        n=NODES,
        problem=setting.problem,
        graph=setting.graph,
        algorithms=name,
        lr=grid,
        iterations=setting.iterations,
        log_every=setting.log_every,
        seed=seed,
        seeds=seeds,
    )
    labels = list(dict.fromkeys(row["algorithm"] for row in result.metrics))
    tried = stepsizes(grid, None)
    curves = {}
    for label in labels:
        rows = [row for row in result.metrics if row["algorithm"] == label]
        curve = _curve(rows, tried[0] if len(tried) == 1 else float(label.partition("lr=")[2]))
        if curve.iterations[-1] == setting.iterations and np.isfinite(curve.gaps).all():
            curves[curve.lr] = curve
    return curves


def _curve(rows: Sequence[Mapping[str, Any]], lr: float) -> Curve:
    iterations = sorted({int(row["iteration"]) for row in rows})
    gaps = [[float(row["gap"]) for row in rows if row["iteration"] == t] for t in iterations]
    return Curve(lr, np.array(iterations), np.array(gaps))
