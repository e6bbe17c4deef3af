"""BEER: gradient tracking with compressed messages."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...fuse import fused
from ..base import Array, Gradient, Mix, require
from .base import Compressed, following


@dataclass(frozen=True)
class BEER(Compressed):
    """BEER (Zhao et al., 2022); with lam < 1 it is MoTEF (Islamov et al., 2024).

        q = C(x - h),  r = C(s - e);  h, e, hw, ew += q, r, Aq, Ar
        x+ = x + gamma (hw+ - h+) - a s
        u+ = (1 - lam) u + lam g+
        s+ = s + gamma (ew+ - e+) + u+ - u

    The start is s = u = g and h = e = hw = ew = 0. Both vectors are compressed at the start of a
    step, in one exchange; the paper's listing compresses after each update, in two. Without
    compression and with gamma=1 it is gt.

    Options:
        lam in (0, 1]: weight of the new gradient
    """

    lam: float = 1.0

    display_name: ClassVar[str] = "BEER"
    tracks: ClassVar[bool] = True

    class State(NamedTuple):
        x: Array  # estimate
        s: Array  # tracker of the mean of u
        g: Array  # estimator u: the last local gradient, or with lam < 1 a moving average
        h: Array  # surrogate of x that the neighbours know
        e: Array  # surrogate of s
        hw: Array  # sum of A_ij h_j
        ew: Array  # sum of A_ij e_j

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.lam <= 1, f"lam must be in (0, 1], not {self.lam}")

    def init(self, x: Array, grad: Gradient) -> State:
        g, zero = grad(x), np.zeros_like(x)
        return self.State(x, g, g, zero, zero, zero, zero)

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, s, u, h, e, hw, ew = state
        (q, aq), (r, ar) = mix.compressed(x - h, s - e)
        gamma = self.gossip(x)
        h, hw = following(h, hw, q, aq)
        x = x + gamma * (hw - h) - self.rate(t) * s
        u_new = grad(x)
        if self.lam != 1:
            u_new = (1 - self.lam) * u + self.lam * u_new
        e, ew = following(e, ew, r, ar)
        s = s + gamma * (ew - e) + u_new - u
        return self.State(x, s, u_new, h, e, hw, ew)
