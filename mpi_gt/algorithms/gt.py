"""Distributed gradient tracking."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, require_order


@dataclass(frozen=True)
class GradientTracking(Algorithm):
    """Distributed stochastic gradient tracking (Zhang and You, 2019).

        x+ = Ax - a s          (`order=atc`: x+ = A(x - a s))
        s+ = As + g+ - g

    The start is s = g.

    Options:
        order: cta combines, then adapts; atc adapts, then combines
    """

    order: Literal["cta", "atc"] = "cta"

    display_name: ClassVar[str] = "distributed GT"
    tracks: ClassVar[bool] = True

    class State(NamedTuple):
        x: Array  # estimate
        s: Array  # tracker of the mean gradient
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_order(self.order)

    def init(self, x: Array, grad: Gradient) -> State:
        g = grad(x)
        return self.State(x, s=g, g=g)

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, s, g = state
        descent = self.rate(t) * s
        if self.order == "cta":
            ax, as_ = mix(x, s)
            x = ax.wait() - descent
        else:
            ax, as_ = mix(x - descent, s)
            x = ax.wait()
        g_new = grad(x)
        return self.State(x, as_.wait() + g_new - g, g_new)
