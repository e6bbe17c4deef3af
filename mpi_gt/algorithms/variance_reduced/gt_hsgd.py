"""Gradient tracking with the hybrid estimator STORM."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from ...fuse import fused
from ..base import Algorithm, Array, Gradient, Mix, require_order, require_start, require_unit
from ..estimators import first, storm


@dataclass(frozen=True)
class GTHSGD(Algorithm):
    """GT-HSGD (Xin, Khan and Kar, 2021), also GT-STORM: gradient tracking with STORM.

        x+ = Ax - a s          (`order=atc`: x+ = A(x - a s))
        u+ = grad(x+) + (1 - beta)(u - grad(x)), both with the draw of t + 1
        s+ = As + u+ - u

    The start is s = u = full(x). The paper mixes the increment of the tracker as well, in a
    second exchange; this is the same method at the latency of gt. With beta=1 it is gt.

    Options:
        beta in [0, 1]: weight of the new gradient; the error of u fades at this rate
        start: full for the exact gradient as u_1, batch for a stochastic one
        order: cta combines, then adapts; atc adapts, then combines
    """

    beta: float = 0.1
    start: Literal["full", "batch"] = "full"
    order: Literal["cta", "atc"] = "cta"

    display_name: ClassVar[str] = "GT-HSGD"
    tracks: ClassVar[bool] = True

    class State(NamedTuple):
        x: Array  # estimate
        s: Array  # tracker of the mean of u
        g: Array  # u, the estimator of the local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_unit("beta", self.beta)
        require_start(self.start)
        require_order(self.order)

    @property
    def needs_full(self) -> bool:
        return self.start == "full" and self.beta != 1

    def init(self, x: Array, grad: Gradient) -> State:
        u = first(x, grad, self.start, self.beta)
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
        u_new = grad(x_new)
        if self.beta != 1:
            u_new = storm(self.beta, u, u_new, grad(x))
        return self.State(x_new, as_.wait() + u_new - u, u_new)
