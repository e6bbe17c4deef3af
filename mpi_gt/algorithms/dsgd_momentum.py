"""Distributed stochastic gradient descent with momentum."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, require, require_decay_rates


@dataclass(frozen=True)
class MomentumDSGD(Algorithm):
    """Distributed stochastic gradient descent with local heavy-ball momentum.

        m+ = b1 m + (1 - dampening) g
        x+ = A(x - a m+)

    The start is m = 0.

    Options:
        beta1 in [0, 1): decay rate b1 of the momentum m
        dampening in [0, 1): share of the gradient that does not enter m
    """

    beta1: float = 0.9
    dampening: float = 0.0

    display_name: ClassVar[str] = "Momentum DSGD"

    class State(NamedTuple):
        x: Array  # estimate
        m: Array  # momentum
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_decay_rates(self.beta1)
        require(0 <= self.dampening < 1, f"dampening must be in [0, 1), not {self.dampening}")

    def init(self, x: Array, grad: Gradient) -> State:
        return self.State(x, np.zeros_like(x), grad(x))

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, m, g = state
        m = self.beta1 * m + (1 - self.dampening) * g
        (ax,) = mix(x - self.rate(t) * m)
        x = ax.wait()
        return self.State(x, m, grad(x))
