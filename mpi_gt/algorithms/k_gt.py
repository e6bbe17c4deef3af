"""Gradient tracking with local steps."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, require, require_interval


@dataclass(frozen=True)
class KGT(Algorithm):
    """K-GT (Liu, Lin, Koloskova and Stich, 2024): K = `every` local steps per exchange.

        y = x - a (g + c)
        t % K = 0:  z = (b - y)/(K a), c+ = c - z + Az, x+ = b+ = A(b - eta (b - y))
        else:       x+ = y

    The start is c = 0 and b = x; the mean of c stays 0. The stepsize must fall with K. With K = 1
    it is gt with order=atc.

    Options:
        every >= 1: iterations K from one exchange to the next
        eta in (0, 1]: share of the way from b to y that is taken at an exchange
    """

    every: int = 5
    eta: float = 1.0

    display_name: ClassVar[str] = "K-GT"

    class State(NamedTuple):
        x: Array  # estimate
        c: Array  # correction of the local gradient
        b: Array  # estimate after the last exchange
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_interval("every", self.every)
        require(0 < self.eta <= 1, f"eta must be in (0, 1], not {self.eta}")

    def phase(self, t: int) -> bool:
        """Return True where neighbours exchange."""
        return t % self.every == 0

    def init(self, x: Array, grad: Gradient) -> State:
        return self.State(x, np.zeros_like(x), x, grad(x))

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, c, b, g = state
        x = x - self.rate(t) * (g + c)
        if self.phase(t):
            z = (b - x) / (self.every * self.rate(t))
            ab, az = mix(b - self.eta * (b - x), z)
            x = b = ab.wait()
            c = c - z + az.wait()
        return self.State(x, c, b, grad(x))
