"""Algorithm 1 with variance reduction, which its paper announces as future work."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ...fuse import fused
from ..base import Array, Gradient, Mix, clip, require_interval, require_start, require_unit
from ..estimators import first, storm
from ..gt_adaptive import GTAdaptive


@dataclass(frozen=True)
class GTAdaptiveVR(GTAdaptive):
    """Algorithm 1 with a recursive estimator u in place of the gradient g.

        m+ = b1 m + (1 - b1) s
        v+ = Clip(b2 v + (1 - b2) s², vmin, vmax)
        x+ = Ax - a m+ / sqrt(v+)
        u+ = full(x+) if period > 0 and t % period = 0, else grad(x+) + (1 - beta)(u - grad(x))
        s+ = As + u+ - u

    The start is s = u = full(x), m = 0 and v = s². Without noise v no longer holds steps back, so
    vmin is larger than that of gt-adaptive. With beta=1 and period=0 it is gt-adaptive.

    Options:
        vmin in (0, 1]: least entry of v
        beta in [0, 1]: weight of the new gradient; 0 is SARAH, between is STORM
        period >= 0: iterations from one exact gradient to the next; 0: none after the start
        start: full for the exact gradient as u_1, batch for a stochastic one
    """

    vmin: float = 1e-4
    beta: float = 0.0
    period: int = 64
    start: Literal["full", "batch"] = "full"

    display_name: ClassVar[str] = "Algorithm 1 with variance reduction"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_unit("beta", self.beta)
        require_interval("period", self.period, 0)
        require_start(self.start)

    @property
    def needs_full(self) -> bool:
        return self.period > 0 or (self.start == "full" and self.beta != 1)

    def phase(self, t: int) -> bool:
        """Return True where u is exact again."""
        return self.period > 0 and t % self.period == 0

    def init(self, x: Array, grad: Gradient) -> GTAdaptive.State:
        u = first(x, grad, self.start, self.beta)
        return self.State(x, s=u, m=np.zeros_like(x), v=u * u, g=u)

    @fused
    def step(self, t: int, state: GTAdaptive.State, mix: Mix, grad: Gradient) -> GTAdaptive.State:
        x, s, m, v, u = state
        ax, as_ = mix(x, s)
        m = self.beta1 * m + (1 - self.beta1) * s
        v = clip(self.beta2 * v + (1 - self.beta2) * (s * s), self.vmin, self.vmax)
        x_new = ax.wait() - self.rate(t) * m / np.sqrt(v)
        u_new = grad.full(x_new) if self.phase(t) else grad(x_new)
        if self.beta != 1 and not self.phase(t):
            u_new = storm(self.beta, u, u_new, grad(x))
        return self.State(x_new, as_.wait() + u_new - u, m, v, u_new)
