"""Exact diffusion, with local steps."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Graph, Mix, require_interval


@dataclass(frozen=True)
class ExactDiffusion(Algorithm):
    """Exact diffusion (Yuan et al., 2019); with K = `every` > 1 local steps it is LED.

        p = x - a g - y/K
        t % K = 0:  x+ = (p + Ap)/2, y+ = y + p - x+
        else:       x+ = p

    The start is y = 0, and the mean of y stays 0. It needs a symmetric A. With K = 1 it is NIDS
    and D², but for the first step and the lazy (I + A)/2.

    Options:
        every >= 1: iterations K from one exchange to the next
    """

    every: int = 1

    display_name: ClassVar[str] = "exact diffusion"
    graph: ClassVar[Graph] = "symmetric"

    class State(NamedTuple):
        x: Array  # estimate
        y: Array  # correction of the bias of diffusion
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_interval("every", self.every)

    def phase(self, t: int) -> bool:
        """Return True where neighbours exchange."""
        return t % self.every == 0

    def init(self, x: Array, grad: Gradient) -> State:
        return self.State(x, np.zeros_like(x), grad(x))

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, y, g = state
        x = p = x - self.rate(t) * g - y / self.every
        if self.phase(t):
            (ap,) = mix(p)
            x = (p + ap.wait()) / 2
            y = y + p - x
        return self.State(x, y, grad(x))
