"""CHOCO-SGD: diffusion with compressed messages."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...fuse import fused
from ..base import Array, Gradient, Mix
from .base import Compressed, following


@dataclass(frozen=True)
class ChocoSGD(Compressed):
    """CHOCO-SGD (Koloskova et al., 2019).

        y = x - a g,  q = C(y - h),  h+ = h + q,  w+ = w + Aq
        x+ = y + gamma (w+ - h+)

    The start is h = w = 0; w is Ah. Without compression and with gamma=1 it is dsgd:order=atc.
    """

    display_name: ClassVar[str] = "CHOCO-SGD"

    class State(NamedTuple):
        x: Array  # estimate
        g: Array  # last local gradient
        h: Array  # surrogate of x that the neighbours know
        hw: Array  # sum of A_ij h_j

    def init(self, x: Array, grad: Gradient) -> State:
        return self.State(x, grad(x), np.zeros_like(x), np.zeros_like(x))

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, g, h, hw = state
        y = x - self.rate(t) * g
        ((q, aq),) = mix.compressed(y - h)
        h, hw = following(h, hw, q, aq)
        x = y + self.gossip(x) * (hw - h)
        return self.State(x, grad(x), h, hw)
