"""Classes as a user writes them: other widths, rare exchanges, exact gradients, phases."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpi_gt.fuse import fused


@dataclass(frozen=True)
class PushSum:
    """DSGD (atc) by push-sum: x with a weight beside it, in one vector of dim + 1 entries."""

    lr: float = 0.1

    class State(NamedTuple):
        x: np.ndarray
        u: np.ndarray
        w: np.ndarray
        g: np.ndarray

    def init(self, x, grad):
        return self.State(x, x, np.ones_like(x[..., :1]), grad(x))

    def step(self, t, state, mix, grad):
        u = state.u - self.lr * state.g
        both = mix(np.concatenate([u, state.w], axis=-1)).wait()
        u, w = both[..., :-1], both[..., -1:]
        x = np.ascontiguousarray(u / w)
        return self.State(x, np.ascontiguousarray(u), np.ascontiguousarray(w), grad(x))


@dataclass(frozen=True)
class Local:
    """DSGD (atc) that exchanges every third iteration."""

    lr: float = 0.1
    every: int = 3
    forgets: bool = False

    class State(NamedTuple):
        x: np.ndarray
        g: np.ndarray

    def init(self, x, grad):
        return self.State(x, grad(x))

    def step(self, t, state, mix, grad):
        x = state.x - self.lr * state.g
        if t % self.every == 0 and not (self.forgets and t > 3):
            x = mix(x).wait()
        return self.State(x, grad(x))


@dataclass(frozen=True)
class Twice(Local):
    """Two exchanges in a row every third iteration, one vector and then two; `phase` tells."""

    every: int = 1

    def phase(self, t):
        return t % 3 == 0

    def step(self, t, state, mix, grad):
        x = mix(state.x).wait()
        if self.phase(t):
            x, g = (result.wait() for result in mix(x, state.g))
            return self.State(x, g)
        x = x - self.lr * state.g
        return self.State(x, grad(x))


@dataclass(frozen=True)
class Refreshed:
    """gt-sarah, outside of the package."""

    lr: float = 0.1
    period: int = 5
    tracks = True

    class State(NamedTuple):
        x: np.ndarray
        s: np.ndarray
        g: np.ndarray

    def phase(self, t):
        return t % self.period == 0

    def init(self, x, grad):
        u = grad.full(x)
        return self.State(x, u, u)

    @fused
    def step(self, t, state, mix, grad):
        x, s, u = state
        ax, as_ = mix(x, s)
        x_new = ax.wait() - self.lr * s
        u_new = grad.full(x_new) if t % self.period == 0 else u + grad(x_new) - grad(x)
        return self.State(x_new, as_.wait() + u_new - u, u_new)


class Unmarked(Refreshed):
    """The same step, which is not compiled."""

    def step(self, t, state, mix, grad):
        return super().step(t, state, mix, grad)


class Bowl:
    """A problem that counts: 4 rows per gradient, 10 + its node in all."""

    batch = 4
    dim = 3
    exact = True

    def __init__(self, place):
        self.rows = 10 + place.node

    def gradient(self, t, x):
        return x - 1

    def evaluate(self, x):
        return 0.5 * ((x - 1) ** 2).sum(axis=-1), x - 1


class Estimated(Bowl):
    exact = False


class Uncounted(Bowl):
    batch = None
