"""All nodes in one process without MPI: the same step on arrays of shape (nodes, seeds, dim).

The tests compare MPI runs with it, and a profile uses it as a baseline without communication.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..kernels.reference import NextGradient, advance
from ..problems.base import Problem

Array = NDArray[Any]


class ReadyMix:
    """A mixed vector that is available at once: the counterpart of PendingMix."""

    def __init__(self, value: Array) -> None:
        self._value = value

    def wait(self) -> Array:
        return self._value


class ReadyMixes(tuple[ReadyMix, ...]):
    """One result per vector; with a single vector, `mix(z).wait()` works as well."""

    def wait(self) -> Array:
        (only,) = self
        return only.wait()


class StackedNode:
    """All nodes at once, with the interface of Node.

    `reproducible`: mix in the order of the ranks, which takes the compiled kernels, not by a BLAS.
    """

    is_root = True
    rank = 0

    def __init__(self, matrix: Array, degrees: Array, reproducible: bool = False) -> None:
        self._matrix = matrix
        self._reproducible = reproducible
        self._degrees = degrees
        self.nodes = len(matrix)
        self.restart()

    def restart(self) -> None:
        self.iteration = 0
        self.bytes_sent = np.zeros(self.nodes, dtype=np.int64)  # one count per node
        self.gradients = 0  # the same on all nodes
        self.due = 0
        self.clear_stop()

    def clear_stop(self) -> None:
        self.stop_at = int(np.iinfo(np.int64).max)

    def start_barrier(self) -> None:
        pass

    def finish_barrier(self) -> None:
        pass

    def mix(self, *vectors: Array) -> ReadyMixes:
        for z in vectors:
            self.bytes_sent += self._degrees * z[0].nbytes
        return ReadyMixes(ReadyMix(self._times(z)) for z in vectors)

    def grad(
        self,
        gradient: Callable[[int, Array], Array],
        full: Callable[[Array], Array],
        costs: tuple[int, int],
    ) -> NextGradient:
        return NextGradient(self, gradient, full, *costs)

    def stepper(
        self, step: Callable[..., Any], grad: Any, last: int
    ) -> Callable[[int, list[Any]], int]:
        return partial(advance, step, self, self.mix, grad, last)

    def _times(self, z: Array) -> Array:
        matrix = self._matrix.astype(z.dtype, copy=False)
        if self._reproducible and kernels.C is not None:
            flat = np.ascontiguousarray(z).reshape(self.nodes, -1)
            mixed = np.empty_like(flat)
            kernels.C.mix_all(mixed, np.ascontiguousarray(matrix), flat)
            return mixed.reshape(z.shape)
        return (matrix @ z.reshape(self.nodes, -1)).reshape(z.shape)

    def mean(self, z: Array, everywhere: bool = True) -> Array:
        return np.add.reduce(np.asarray(z, dtype=np.float64), axis=0) / self.nodes

    def gather(self, z: Array) -> Array:
        return z

    def broadcast_flag(self, flag: bool) -> bool:
        return flag

    def stream_to_root(self, z: Array) -> Iterator[Array]:
        return iter(z)

    def free(self) -> None:
        pass


class StackedProblem:
    """The problems of all nodes, with the interface of Problem: one problem object per node."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems
        self.dim = problems[0].dim

    def gradient(self, t: int, x: Array) -> Array:
        return np.stack(
            [problem.gradient(t, own) for problem, own in zip(self._problems, x, strict=True)]
        )

    def __getattr__(self, name: str) -> Any:
        """Return an optional method of the problems, such as `accuracy`, for all nodes at once."""
        if name.startswith("_") or not hasattr(self._problems[0], name):
            raise AttributeError(name)
        return lambda *at: np.stack([getattr(problem, name)(*at) for problem in self._problems])

    def metrics(self, x: Array) -> dict[str, Array]:
        """Return the problems' own metrics, each (nodes, seeds)."""
        first, *others = (problem.metrics(x) for problem in self._problems)
        return {name: np.stack([first[name], *(o[name] for o in others)]) for name in first}

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """Evaluate all nodes at one x (seeds, dim), or each at its own x (nodes, seeds, dim)."""
        points = [x] * len(self._problems) if x.ndim == 2 else x
        losses, gradients = zip(
            *(problem.evaluate(at) for problem, at in zip(self._problems, points, strict=True)),
            strict=True,
        )
        return np.stack(losses), np.stack(gradients)
