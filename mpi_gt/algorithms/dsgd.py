"""Distributed stochastic gradient descent."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, require, require_interval, require_order


@dataclass(frozen=True)
class DSGD(Algorithm):
    """Distributed stochastic gradient descent (Assran et al., 2019).

        x+ = Ax - a g          (`order=atc`: x+ = A(x - a g))

    With order=atc and K = `every` > 1 it is local DSGD: x+ = x - a g unless t % K = 0.

    Options:
        order: cta combines, then adapts; atc adapts, then combines
        every >= 1: iterations K from one exchange to the next; more than 1 needs order=atc
    """

    order: Literal["cta", "atc"] = "cta"
    every: int = 1

    display_name: ClassVar[str] = "DSGD"

    class State(NamedTuple):
        x: Array  # estimate
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_order(self.order)
        require_interval("every", self.every)
        require(
            self.every == 1 or self.order == "atc",
            "every > 1 needs order=atc: the steps between two exchanges are x - a g",
        )

    def phase(self, t: int) -> bool:
        """Return True where neighbours exchange."""
        return t % self.every == 0

    def init(self, x: Array, grad: Gradient) -> State:
        return self.State(x, grad(x))

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, g = state
        descent = self.rate(t) * g
        if self.order == "cta":
            (ax,) = mix(x)
            x = ax.wait() - descent
        elif self.phase(t):
            (ax,) = mix(x - descent)
            x = ax.wait()
        else:
            x = x - descent
        return self.State(x, grad(x))
