"""Write a method of your own, and run it on MPI processes beside one of the package.

python own_method.py
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import mpi_gt
from mpi_gt.algorithms.base import Algorithm


@dataclass(frozen=True)
class NormalisedGT(Algorithm):
    """Gradient tracking with steps of a bounded length.

    x+ = A x - a s / (1 + |s|),  s+ = A s + g+ - g, with one norm |s| per node and seed.
    """

    lr: float = 0.1

    class State(NamedTuple):
        """The vectors that a node keeps, (seeds, dim) each."""

        x: np.ndarray  # estimate
        s: np.ndarray  # tracker of the mean gradient
        g: np.ndarray  # last local gradient

    def init(self, x, grad):
        """Return the state at t = 1."""
        g = grad(x)
        return self.State(x, g, g)

    def step(self, t, state, mix, grad):
        """Return the state at t + 1."""
        ax, tracked = mix(state.x, state.s)  # both vectors travel in one message
        length = 1 + np.linalg.norm(state.s, axis=1, keepdims=True)
        x = ax.wait() - self.rate(t) * state.s / length
        g = grad(x)
        return self.State(x, tracked.wait() + g - state.g, g)


if __name__ == "__main__":  # the processes import this file for the class
    result = mpi_gt.launch(
        n=8,
        problem="huber:spread=0.5",
        algorithms=[NormalisedGT(lr=0.2), "gt:lr=0.2"],
        graph="er:p=0.5",
        iterations=500,
        seeds=3,
    )
    print(result.summary[["method", "lr", "gap", "seconds_per_iteration"]].to_string())
