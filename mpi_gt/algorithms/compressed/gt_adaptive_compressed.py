"""Algorithm 1 with compressed messages, which its paper announces as future work."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...fuse import fused
from ..base import Array, Gradient, Mix, clip
from ..estimators import first, storm
from ..variance_reduced.gt_adaptive_vr import GTAdaptiveVR
from .base import Compressed, following


@dataclass(frozen=True)
class GTAdaptiveCompressed(Compressed, GTAdaptiveVR):
    """Algorithm 1 with compressed differences, and with variance reduction if you like.

        q = C(x - h),  r = C(s - e);  h, e, hw, ew += q, r, Aq, Ar
        m+ = b1 m + (1 - b1) s
        v+ = Clip(b2 v + (1 - b2) s², vmin, vmax)
        x+ = x + gamma (hw+ - h+) - a m+ / sqrt(v+)
        u+ = full(x+) if period > 0 and t % period = 0, else grad(x+) + (1 - beta)(u - grad(x))
        s+ = s + gamma (ew+ - e+) + u+ - u

    The start is s = u, m = 0, v = s² and h = e = hw = ew = 0. By default u is the stochastic
    gradient; beta=0,period=64 is the estimator of gt-adaptive-vr, with which compression costs
    next to nothing. Without compression and with gamma=1 it is gt-adaptive-vr.

    Options:
        beta in [0, 1]: weight of the new gradient; 1 is the plain gradient, 0 is SARAH
        period >= 0: iterations from one exact gradient to the next; 0: none after the start
    """

    beta: float = 1.0
    period: int = 0

    display_name: ClassVar[str] = "Algorithm 1 with compression"

    class State(NamedTuple):
        x: Array  # estimate
        s: Array  # tracker of the mean of u
        m: Array  # momentum
        v: Array  # adaptive vector
        g: Array  # estimator u
        h: Array  # surrogate of x that the neighbours know
        e: Array  # surrogate of s
        hw: Array  # sum of A_ij h_j
        ew: Array  # sum of A_ij e_j

    def init(self, x: Array, grad: Gradient) -> State:  # type: ignore[override]
        u, zero = first(x, grad, self.start, self.beta), np.zeros_like(x)
        return self.State(x, u, zero, u * u, u, zero, zero, zero, zero)

    @fused
    def step(  # type: ignore[override]
        self, t: int, state: State, mix: Mix, grad: Gradient
    ) -> State:
        x, s, m, v, u, h, e, hw, ew = state
        (q, aq), (r, ar) = mix.compressed(x - h, s - e)
        gamma = self.gossip(x)
        m = self.beta1 * m + (1 - self.beta1) * s
        v = clip(self.beta2 * v + (1 - self.beta2) * (s * s), self.vmin, self.vmax)
        h, hw = following(h, hw, q, aq)
        x_new = x + gamma * (hw - h) - self.rate(t) * m / np.sqrt(v)
        u_new = grad.full(x_new) if self.phase(t) else grad(x_new)
        if self.beta != 1 and not self.phase(t):
            u_new = storm(self.beta, u, u_new, grad(x))
        e, ew = following(e, ew, r, ar)
        s = s + gamma * (ew - e) + u_new - u
        return self.State(x_new, s, m, v, u_new, h, e, hw, ew)
