"""DSGD with quasi-global momentum."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, require_decay_rates


@dataclass(frozen=True)
class QuasiGlobalMomentum(Algorithm):
    """QG-DSGDm (Lin, Karimireddy, Stich and Jaggi, 2021).

        y  = x - a (b1 m + g)
        x+ = Ay
        m+ = b1 m + (1 - b1)(x - x+)/a

    The start is m = 0. The momentum follows the way that x went, exchange included, so it is
    nearly the same on all nodes.

    Options:
        beta1 in [0, 1): decay rate b1 of the momentum m
    """

    beta1: float = 0.9

    display_name: ClassVar[str] = "QG-DSGDm"

    class State(NamedTuple):
        x: Array  # estimate
        m: Array  # momentum of the way of x
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_decay_rates(self.beta1)

    def init(self, x: Array, grad: Gradient) -> State:
        return self.State(x, np.zeros_like(x), grad(x))

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, m, g = state
        a = self.rate(t)
        (ay,) = mix(x - a * (self.beta1 * m + g))
        x_new = ay.wait()
        m = self.beta1 * m + (1 - self.beta1) * ((x - x_new) / a)
        return self.State(x_new, m, grad(x_new))
