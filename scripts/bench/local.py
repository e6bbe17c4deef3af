"""The gradient and the metric of one node on real data, beside the matrix products they need.

Both sides alternate in one process, without MPI; the times are processor times.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np

from mpi_gt.datasets import DATASETS
from mpi_gt.datasets.store import prepare
from mpi_gt.problems import Place
from mpi_gt.problems.softmax import Softmax

REPEATS = 7
CHUNK = 4096  # rows per product in the metric


def alternately(first: Callable[[], None], second: Callable[[], None], calls: int) -> list[float]:
    """Return the median seconds per call of each function."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS):
        for function, taken in zip((first, second), times, strict=True):
            began = time.process_time()
            for _ in range(calls):
                function()
            taken.append((time.process_time() - began) / calls)
    return [statistics.median(taken) for taken in times]


def stochastic_gradient(seeds: int) -> list[float]:
    """Time the MNIST gradient (batch 32), and its row gather and two products alone."""
    prepare(DATASETS["mnist"])
    problem = Softmax(Place(0, 16, tuple(range(seeds))), dataset="mnist")
    x = np.random.default_rng(0).standard_normal((seeds, problem.dim)) / 100
    w = x.reshape(seeds, problem.classes, -1)
    rows = problem._rows(1)
    t = 0

    def ours() -> None:
        nonlocal t
        t += 1
        problem.gradient(t, x)

    def products() -> None:
        y = problem._x[rows].astype(x.dtype)
        p = np.matmul(y, w.transpose(0, 2, 1))
        np.matmul(p.transpose(0, 2, 1), y)

    return alternately(ours, products, max(1, 500 // seeds))


def exact_metric(seeds: int) -> list[float]:
    """Time `evaluate` on all Covertype rows, and its two products and the conversion alone."""
    prepare(DATASETS["covertype"])
    problem = Softmax(Place(0, 1, tuple(range(seeds))), dataset="covertype")
    x = np.random.default_rng(0).standard_normal((seeds, problem.dim)) / 100
    w = np.ascontiguousarray(x.reshape(seeds * problem.classes, -1).T)

    def products() -> None:
        for begin in range(0, len(problem._x), CHUNK):
            y = problem._x[begin : begin + CHUNK].astype(np.float64)
            (y @ w).T @ y

    return alternately(lambda: problem.evaluate(x) and None, products, 1)
