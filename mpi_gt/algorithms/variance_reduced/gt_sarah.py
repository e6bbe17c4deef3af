"""Gradient tracking with the recursive estimator SARAH."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from ...fuse import fused
from ..base import Algorithm, Array, Gradient, Mix, require_interval, require_order
from ..estimators import sarah


@dataclass(frozen=True)
class GTSARAH(Algorithm):
    """GT-SARAH (Xin, Khan and Kar, 2022; D-GET is the same recursion).

        x+ = Ax - a s          (`order=atc`: x+ = A(x - a s))
        u+ = full(x+) if t % period = 0, else u + grad(x+) - grad(x)
        s+ = As + u+ - u

    The start is s = u = full(x). There is one loop, not two: t counts through.

    Options:
        period >= 1: iterations from one exact gradient to the next
        order: cta combines, then adapts; atc adapts, then combines
    """

    period: int = 64
    order: Literal["cta", "atc"] = "cta"

    display_name: ClassVar[str] = "GT-SARAH"
    tracks: ClassVar[bool] = True
    needs_full: ClassVar[bool] = True

    class State(NamedTuple):
        x: Array  # estimate
        s: Array  # tracker of the mean of u
        g: Array  # u, the estimator of the local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_interval("period", self.period)
        require_order(self.order)

    def phase(self, t: int) -> bool:
        """Return True where u is exact again."""
        return t % self.period == 0

    def init(self, x: Array, grad: Gradient) -> State:
        u = grad.full(x)
        return self.State(x, s=u, g=u)

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, s, u = state
        descent = self.rate(t) * s
        if self.order == "cta":
            ax, as_ = mix(x, s)
            x_new = ax.wait() - descent
        else:
            ax, as_ = mix(x - descent, s)
            x_new = ax.wait()
        u_new = grad.full(x_new) if self.phase(t) else sarah(u, grad(x_new), grad(x))
        return self.State(x_new, as_.wait() + u_new - u, u_new)
