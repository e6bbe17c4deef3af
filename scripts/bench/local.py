"""The gradient and the metric of one node on real data, beside the matrix products they need; the
compressors, beside a copy of the vector.

All sides take turns in one process, without MPI; the times are processor times.
"""

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from mpi_gt.comm.compression import FIRST_PURPOSE
from mpi_gt.compressors import Compiled, make_compressor
from mpi_gt.datasets import DATASETS
from mpi_gt.datasets.store import prepare
from mpi_gt.problems import Place
from mpi_gt.problems.base import Draws
from mpi_gt.problems.softmax import Softmax

Function = Callable[[], object]

REPEATS = 7
CHUNK = 4096  # rows per product in the metric


def by_turns(functions: Sequence[Function], calls: int, repeats: int) -> list[list[float]]:
    """Return the seconds per call of each function, in every turn."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, taken in zip(functions, times, strict=True):
            began = time.process_time()
            for _ in range(calls):
                function()
            taken.append((time.process_time() - began) / calls)
    return times


def alternately(first: Function, second: Function, calls: int) -> list[float]:
    """Return the median seconds per call of each function."""
    return [statistics.median(taken) for taken in by_turns((first, second), calls, REPEATS)]


def stochastic_gradient(seeds: int) -> list[float]:
    """Time the MNIST gradient (batch 32), and its row gather and two products alone."""
    prepare(DATASETS["mnist"])
    problem = Softmax(Place(0, 16, tuple(range(seeds))), dataset="mnist")
    x = np.random.default_rng(0).standard_normal((seeds, problem.dim)) / 100
    w = x.reshape(seeds, problem.classes, -1)
    rows = problem._rows(1)
    t = 0

    gradient = problem._kernel or problem.gradient  # as the loop takes it

    def ours() -> None:
        nonlocal t
        t += 1
        gradient(t, x)

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


def codec(spec: str, seeds: int, repeats: int = 3 * REPEATS) -> dict[str, float]:
    """Return the shortest seconds of `encode`, `decode`, a `copy` of the vector, and of `draws`.

    The vector has 7840 entries per seed, as of MNIST; the draws are those that encode needs.
    """
    compressor = make_compressor(spec)
    assert isinstance(compressor, Compiled)
    z = np.random.default_rng(0).standard_normal((seeds, 7840))
    payload = np.zeros((1, compressor.size(seeds, z.shape[1], z.dtype)), np.uint8)
    made, drawn, t = np.empty((1, *z.shape)), None, 0
    sides: dict[str, Function] = {
        "encode": lambda: compressor.encode_into(z, payload[0], drawn),
        "decode": lambda: compressor.decode_into(payload, made),
        "copy": lambda: np.copyto(made[0], z),
    }
    if compressor.random:
        draws = Draws(Place(0, 1, tuple(range(seeds))), FIRST_PURPOSE, z.shape[1])
        drawn = draws.at(1).copy()

        def draw() -> None:
            nonlocal t
            t += 1
            draws.at(t)

        sides["draws"] = draw
    times = by_turns(list(sides.values()), max(1, 200 // seeds), repeats)
    return {name: min(taken) for name, taken in zip(sides, times, strict=True)}


def codec_beside_copy(spec: str, seeds: int) -> list[float]:
    """Return the seconds to encode and decode a vector, and to copy it."""
    times = codec(spec, seeds)
    return [times["encode"] + times["decode"], times["copy"]]
