"""Methods as a user would write them, outside the package, for the tests of `place` and `each`."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpi_gt.algorithms.base import Algorithm
from mpi_gt.fuse import fused


@dataclass(frozen=True)
class Extra(Algorithm):
    """EXTRA (Shi et al., 2015): x+ = x + Ax - (xp + Axp)/2 - a (g - gp)."""

    class State(NamedTuple):
        x: np.ndarray
        xp: np.ndarray
        axp: np.ndarray
        g: np.ndarray
        gp: np.ndarray

    def init(self, x, grad):
        # so that x_2 = A x_1 - a g_1
        return self.State(x, x, x, grad(x), np.zeros_like(x))

    @fused
    def step(self, t, state, mix, grad):
        x, xp, axp, g, gp = state
        ax = self.mixed(mix, x)
        new = x + ax - 0.5 * (xp + axp) - self.rate(t) * (g - gp)
        return self.State(new, x, ax, grad(new), g)

    def mixed(self, mix, x):
        return mix(x).wait()


@dataclass(frozen=True)
class EdgeExtra(Extra):
    """EXTRA with A x added up by the method itself, neighbour by neighbour."""

    def step(self, t, state, mix, grad, place):
        def by_edges(z):
            pending = mix.each(z)
            total = place.weights[place.node] * z
            for j, other in pending.wait().items():
                total = total + place.weights[j] * other
            return total

        x, xp, axp, g, gp = state
        ax = by_edges(x)
        new = x + ax - 0.5 * (xp + axp) - self.rate(t) * (g - gp)
        return self.State(new, x, ax, grad(new), g)


@dataclass(frozen=True)
class Admm(Algorithm):
    """Linearised ADMM over the edges (DLM: Ling et al., 2015), with penalty c and 1/a = rho.

    x+ = x - (g + p + c sum_j (x - x_j)) / (2 c degree + 1/a),  p+ = p + c sum_j (x+ - x_j+)
    """

    c: float = 0.3

    class State(NamedTuple):
        x: np.ndarray
        p: np.ndarray  # the sum of the multipliers of this node's edges, before this x
        g: np.ndarray

    def init(self, x, grad):
        return self.State(x, np.zeros_like(x), grad(x))

    def step(self, t, state, mix, grad):
        x, p, g = state
        others = mix.each(x).wait()
        apart = sum((x - other for other in others.values()), np.zeros_like(x))
        p = p + self.c * apart
        x = x - (g + p + self.c * apart) / (2 * self.c * len(others) + 1 / self.rate(t))
        return self.State(x, p, grad(x))


@dataclass(frozen=True)
class OwnRate(Algorithm):
    """DSGD whose stepsize is lr/L_i, from the local constant."""

    class State(NamedTuple):
        x: np.ndarray
        g: np.ndarray

    def init(self, x, grad):
        return self.State(x, grad(x))

    @fused
    def step(self, t, state, mix, grad, place):
        x = mix(state.x).wait() - self.rate(t) / place.constants.L.value * state.g
        return self.State(x, grad(x))


@dataclass(frozen=True)
class RandK(Algorithm):
    """DSGD with k random entries of each gradient, chosen by the method's own numbers."""

    k: int = 2

    class State(NamedTuple):
        x: np.ndarray
        g: np.ndarray

    def init(self, x, grad, place):
        return self.State(x, grad(x))

    def step(self, t, state, mix, grad, place):
        drawn = place.draws(t, purpose=7, width=state.x.shape[1])
        kept = drawn >= np.sort(drawn, axis=1)[:, [-self.k]]
        chosen = (state.g * kept * (state.x.shape[1] / self.k)).astype(place.dtype)
        x = mix(state.x).wait() - self.rate(t) * chosen
        return self.State(x, grad(x))


@dataclass(frozen=True)
class Median(Algorithm):
    """The median over the neighbourhood, then a gradient step; half of it in a second exchange."""

    class State(NamedTuple):
        x: np.ndarray
        g: np.ndarray

    def init(self, x, grad):
        return self.State(x, grad(x))

    def step(self, t, state, mix, grad):
        others, gradients = mix.each(state.x, state.g)
        slope = 0.5 * (state.g + sum(gradients.wait().values(), np.zeros_like(state.g)))
        x = np.median([state.x, *others.wait().values()], axis=0) - self.rate(t) * slope
        x = mix(x).wait()
        return self.State(x, grad(x))
