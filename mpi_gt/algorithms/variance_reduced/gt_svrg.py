"""Gradient tracking with the estimator SVRG."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ...fuse import fused
from ..base import Algorithm, Array, Gradient, Mix, require_interval
from ..estimators import svrg


@dataclass(frozen=True)
class GTSVRG(Algorithm):
    """GT-SVRG (Xin, Khan and Kar, 2020): gradients corrected at an anchor w.

        x+ = Ax - a s
        t % period = 0:  w+ = x+, f+ = u+ = full(x+)
        else:            u+ = grad(x+) - grad(w) + f
        s+ = As + u+ - u

    The start is w = x, f = u = s = full(x). There is one loop, not two: t counts through.

    Options:
        period >= 1: iterations from one anchor to the next
    """

    period: int = 64

    display_name: ClassVar[str] = "GT-SVRG"
    tracks: ClassVar[bool] = True
    needs_full: ClassVar[bool] = True

    class State(NamedTuple):
        x: Array  # estimate
        s: Array  # tracker of the mean of u
        g: Array  # u, the estimator of the local gradient
        w: Array  # anchor
        f: Array  # exact gradient at the anchor

    def __post_init__(self) -> None:
        super().__post_init__()
        require_interval("period", self.period)

    def phase(self, t: int) -> bool:
        """Return True where the anchor moves."""
        return t % self.period == 0

    def init(self, x: Array, grad: Gradient) -> State:
        f = grad.full(x)
        return self.State(x, s=f, g=f, w=x, f=f)

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, s, u, w, f = state
        ax, as_ = mix(x, s)
        x = ax.wait() - self.rate(t) * s
        if self.phase(t):
            w, f = x, grad.full(x)
            u_new = f
        else:
            u_new = svrg(grad(x), grad(w), f)
        return self.State(x, as_.wait() + u_new - u, u_new, w, f)
