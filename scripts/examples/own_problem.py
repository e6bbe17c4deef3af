"""Write a problem of your own, and solve it with a start and a graph of your own.

python own_problem.py
"""

import networkx as nx
import numpy as np

import mpi_gt
from mpi_gt.problems.base import Draws, Problem


class PhaseRetrieval(Problem):
    """f_i(x) = mean_j ((a_j' x)² - y_j)² / 4: non-convex, with a saddle at 0."""

    def __init__(self, place, *, dim: int = 5, rows: int = 200, batch: int = 8):
        self.dim = dim
        target = place.random(seed=0, purpose=1, shared=True).standard_normal(dim)
        self.a = place.random(seed=0, purpose=2).standard_normal((rows, dim)).astype(place.dtype)
        self.y = (self.a @ target.astype(place.dtype)) ** 2
        self.rows = Draws(place, purpose=3, width=batch, transform=lambda u: (u * rows).astype(int))

    def gradient(self, t, x):
        """Return the gradient over the rows that are drawn for iteration t."""
        rows = self.rows(t)  # (seeds, batch)
        return self._parts(self.a[rows], self.y[rows], x)[1]

    def evaluate(self, x):
        """Return the exact loss and gradient."""
        return self._parts(self.a, self.y, x)

    def _parts(self, a, y, x):
        z = (a @ x[..., np.newaxis])[..., 0]
        slope = (z**2 - y) * z / y.shape[-1]
        return ((z**2 - y) ** 2).mean(axis=-1) / 4, (slope[..., np.newaxis, :] @ a)[..., 0, :]


if __name__ == "__main__":
    result = mpi_gt.launch(
        n=4,
        problem=(PhaseRetrieval, {"dim": 4}),
        algorithm="gt:lr=0.02",
        graph=nx.star_graph(3),
        x1=np.full(4, 0.5),  # at 0 the gradient is 0
        iterations=800,
    )
    first, last = result.metrics[0], result.metrics[-1]
    print(f"loss {first['loss']:.3g} before, {last['loss']:.3g} after {last['iteration']} steps")
    print(f"estimate of node 0: {result.x[0, 0].round(3)}")
