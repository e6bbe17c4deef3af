"""Distributed stochastic gradient descent."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, require_order


@dataclass(frozen=True)
class DSGD(Algorithm):
    """Distributed stochastic gradient descent (Assran et al., 2019).

    x+ = Ax - a g          (`order=atc`: x+ = A(x - a g))

    Options:
        order: cta combines, then adapts; atc adapts, then combines
    """

    order: Literal["cta", "atc"] = "cta"

    display_name: ClassVar[str] = "DSGD"

    class State(NamedTuple):
        x: Array  # estimate
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_order(self.order)

    def init(self, x: Array, grad: Gradient) -> State:
        return self.State(x, grad(x))

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, g = state
        descent = self.rate(t) * g
        if self.order == "cta":
            (ax,) = mix(x)
            x = ax.wait() - descent
        else:
            (ax,) = mix(x - descent)
            x = ax.wait()
        return self.State(x, grad(x))
