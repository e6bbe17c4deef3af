"""Distributed AdaBound."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, clip, require_decay_rates, require_positive


@dataclass(frozen=True)
class DAdaBound(Algorithm):
    """Distributed adaptive descent with bounded stepsizes (Zhang et al., 2021; a reconstruction).

        m+ = b1 m + (1 - b1) g
        v+ = b2 v + (1 - b2) g²
        r  = (a_t / a) Clip(a / (sqrt(v+) + eps), lo_t, hi_t)
        x+ = Ax - r m+

    with lo_t = c (1 - 1 / ((1 - b2) t + 1)) and hi_t = c (1 + 1 / ((1 - b2) t)), which
    both tend to c (`final_lr`). The start is m = v = 0; by default a_t = 100 a / (100 + sqrt t).

    Options:
        beta1 in [0, 1): decay rate b1 of the momentum m
        beta2 in (0, 1): decay rate b2 of v
        eps > 0: added to sqrt(v+), so that nothing is divided by zero
        final_lr > 0: c, to which the bounds of the stepsize tend
    """

    schedule: Literal["constant", "sqrt"] = "sqrt"
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    final_lr: float = 0.1

    display_name: ClassVar[str] = "D-AdaBound"

    class State(NamedTuple):
        x: Array  # estimate
        m: Array  # momentum
        v: Array  # mean square of the gradient
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_decay_rates(self.beta1, self.beta2)
        require_positive("eps", self.eps)
        require_positive("final_lr", self.final_lr)

    def init(self, x: Array, grad: Gradient) -> State:
        zero = np.zeros_like(x)
        return self.State(x, zero, zero, grad(x))

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, m, v, g = state
        (ax,) = mix(x)
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * (g * g)
        lowest = self.final_lr * (1 - 1 / ((1 - self.beta2) * t + 1))
        highest = self.final_lr * (1 + 1 / ((1 - self.beta2) * t))
        bounded = clip(self.lr / (np.sqrt(v) + self.eps), lowest, highest)
        x = ax.wait() - (self.rate(t) / self.lr) * bounded * m
        return self.State(x, m, v, grad(x))
