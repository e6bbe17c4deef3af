"""EXTRA, the first exact method with a constant stepsize."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Graph, Mix


@dataclass(frozen=True)
class EXTRA(Algorithm):
    """EXTRA (Shi, Ling, Wu and Yin, 2015), with W~ = (I + A)/2.

        x+ = x + Ax - (xp + Axp)/2 - a (g - gp)

    xp and gp are x and g of the step before. The start is xp = Axp = x and gp = 0, so that the
    first step is x+ = Ax - a g. It needs a symmetric A, and lr < 2 lambda_min((I + A)/2)/L.
    """

    display_name: ClassVar[str] = "EXTRA"
    graph: ClassVar[Graph] = "symmetric"

    class State(NamedTuple):
        x: Array  # estimate
        xp: Array  # the estimate before
        axp: Array  # A times the estimate before
        g: Array  # last local gradient
        gp: Array  # the gradient before

    def init(self, x: Array, grad: Gradient) -> State:
        return self.State(x, xp=x, axp=x, g=grad(x), gp=np.zeros_like(x))

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, xp, axp, g, gp = state
        ax = mix(x)[0].wait()
        x_new = x + ax - (xp + axp) / 2 - self.rate(t) * (g - gp)
        return self.State(x_new, xp=x, axp=ax, g=grad(x_new), gp=g)
