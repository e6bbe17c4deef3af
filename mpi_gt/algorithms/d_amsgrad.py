"""Distributed AMSGrad."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, require, require_decay_rates, require_positive


@dataclass(frozen=True)
class DAMSGrad(Algorithm):
    """Distributed adaptive gradient descent (Shen et al., 2020; a reconstruction).

        m+  = b1 m + (1 - b1) g
        v+  = b2 v + (1 - b2) g²
        vh+ = max(vh, v+)          (beta3 > 0: b3 vh + (1 - b3) max(vh, v+), DADAM)
        x+  = Ax - a_t m+ / (sqrt(vh+) + eps)

    The start is m = v = vh = 0; by default a_t = 100 a / (100 + sqrt t).

    Options:
        beta1 in [0, 1): decay rate b1 of the momentum m
        beta2 in (0, 1): decay rate b2 of v
        beta3 in [0, 1): decay rate b3 of vh; 0 is AMSGrad, more is DADAM (Nazari et al., 2022)
        eps > 0: added to sqrt(vh+), so that nothing is divided by zero
    """

    schedule: Literal["constant", "sqrt"] = "sqrt"
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    beta3: float = 0.0

    display_name: ClassVar[str] = "D-AMSGrad"

    class State(NamedTuple):
        x: Array  # estimate
        m: Array  # momentum
        v: Array  # mean square of the gradient
        vh: Array  # the largest v so far
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_decay_rates(self.beta1, self.beta2)
        require_positive("eps", self.eps)
        require(0 <= self.beta3 < 1, f"beta3 must be in [0, 1), not {self.beta3}")

    def init(self, x: Array, grad: Gradient) -> State:
        zero = np.zeros_like(x)
        return self.State(x, zero, zero, zero, grad(x))

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, m, v, vh, g = state
        (ax,) = mix(x)
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * (g * g)
        largest = np.maximum(vh, v)
        vh = self.beta3 * vh + (1 - self.beta3) * largest if self.beta3 > 0 else largest
        x = ax.wait() - self.rate(t) * m / (np.sqrt(vh) + self.eps)
        return self.State(x, m, v, vh, grad(x))
