"""GTAdam: gradient tracking with the steps of Adam."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, require_decay_rates, require_positive


@dataclass(frozen=True)
class GTAdam(Algorithm):
    """Gradient tracking with the steps of Adam (Carnevale et al., 2020).

        m+ = b1 m + (1 - b1) s
        v+ = min(b2 v + (1 - b2) s², 1e6)
        x+ = Ax - a m+ / sqrt(v+ + eps)
        s+ = As + g+ - g

    The start is s = g and m = v = 0.

    Options:
        beta1 in [0, 1): decay rate b1 of the momentum m
        beta2 in (0, 1): decay rate b2 of v
        eps > 0: added to v+, so that nothing is divided by zero
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    display_name: ClassVar[str] = "GTAdam"
    tracks: ClassVar[bool] = True
    LARGEST_V: ClassVar[float] = 1e6

    class State(NamedTuple):
        x: Array  # estimate
        s: Array  # tracker of the mean gradient
        m: Array  # momentum
        v: Array  # mean square of the tracker
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_decay_rates(self.beta1, self.beta2)
        require_positive("eps", self.eps)

    def init(self, x: Array, grad: Gradient) -> State:
        g = grad(x)
        zero = np.zeros_like(x)
        return self.State(x, s=g, m=zero, v=zero, g=g)

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, s, m, v, g = state
        ax, as_ = mix(x, s)
        m = self.beta1 * m + (1 - self.beta1) * s
        v = np.minimum(self.beta2 * v + (1 - self.beta2) * (s * s), self.LARGEST_V)
        x = ax.wait() - self.rate(t) * m / np.sqrt(v + self.eps)
        g_new = grad(x)
        return self.State(x, as_.wait() + g_new - g, m, v, g_new)
