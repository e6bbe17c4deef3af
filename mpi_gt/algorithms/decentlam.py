"""DecentLaM: momentum without the bias of heterogeneous nodes."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, require_decay_rates


@dataclass(frozen=True)
class DecentLaM(Algorithm):
    """Momentum without the bias that heterogeneous nodes cause (Yuan et al., 2021).

        h  = (x - A(x - a g)) / a
        m+ = b1 m + h
        x+ = x - a m+

    The start is m = 0.

    Options:
        beta1 in [0, 1): decay rate b1 of the momentum m
    """

    beta1: float = 0.9

    display_name: ClassVar[str] = "DecentLaM"

    class State(NamedTuple):
        x: Array  # estimate
        m: Array  # momentum
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
        (mixed,) = mix(x - a * g)
        m = self.beta1 * m + (x - mixed.wait()) / a
        x = x - a * m
        return self.State(x, m, grad(x))
