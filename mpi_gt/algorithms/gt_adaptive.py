"""Algorithm 1 of Han, Liu, Lin and Xia: clipped adaptive steps along a tracked gradient."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, clip, require, require_decay_rates


@dataclass(frozen=True)
class GTAdaptive(Algorithm):
    """Distributed adaptive gradient algorithm with gradient tracking.

        m+ = b1 m + (1 - b1) s
        v+ = Clip(b2 v + (1 - b2) s², vmin, vmax)
        x+ = Ax - a m+ / sqrt(v+)
        s+ = As + g+ - g

    The start is s = g, m = 0 and v = s² (not clipped). The paper's listing sends x and s of
    t - 1, but its equations use those of t, as this class does.

    Options:
        beta1 in [0, 1): decay rate b1 of the momentum m
        beta2 in (0, 1): decay rate b2 of v
        vmin in (0, 1]: least entry of v
        vmax >= 1: largest entry of v
    """

    beta1: float = 0.9
    beta2: float = 0.999
    vmin: float = 1e-8
    vmax: float = 100.0

    display_name: ClassVar[str] = "Algorithm 1"
    tracks: ClassVar[bool] = True

    class State(NamedTuple):
        x: Array  # estimate
        s: Array  # tracker of the mean gradient
        m: Array  # momentum
        v: Array  # adaptive vector
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_decay_rates(self.beta1, self.beta2)
        require(0 < self.vmin <= 1, f"vmin must be in (0, 1], not {self.vmin}")
        require(
            math.isfinite(self.vmax) and self.vmax >= 1,
            f"vmax must be finite and >= 1, not {self.vmax}",
        )

    def init(self, x: Array, grad: Gradient) -> State:
        g = grad(x)
        return self.State(x, s=g, m=np.zeros_like(x), v=g * g, g=g)

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, s, m, v, g = state
        ax, as_ = mix(x, s)
        m = self.beta1 * m + (1 - self.beta1) * s
        v = clip(self.beta2 * v + (1 - self.beta2) * (s * s), self.vmin, self.vmax)
        x = ax.wait() - self.rate(t) * m / np.sqrt(v)
        g_new = grad(x)
        return self.State(x, as_.wait() + g_new - g, m, v, g_new)
