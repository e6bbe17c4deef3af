"""LEAD: an exact primal-dual method with compressed messages."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...compressors import Compressor
from ...compressors.qsgd import Qsgd
from ...fuse import fused
from ..base import Array, Gradient, Graph, Mix, require
from .base import Compressed


@dataclass(frozen=True)
class LEAD(Compressed):
    """LEAD (Liu et al., 2021).

        y = x - a g - a d,  q = C(y - h)
        d+ = d + gamma/(2a) ((h + q) - (w + Aq))
        h+ = h + alpha q,  w+ = w + alpha Aq
        x+ = x - a g - a d+

    The start is d = h = w = 0; w is Ah. It needs a symmetric A, and a compressor that is right on
    the average: none, a cast, or qsgd, here without the division by 1 + omega. With others it
    diverges at any gamma. Without compression and with gamma=1 it is exact-diffusion.

    Options:
        alpha in (0, 1]: how fast the surrogate h follows
    """

    alpha: float = 0.5

    display_name: ClassVar[str] = "LEAD"
    graph: ClassVar[Graph] = "symmetric"

    class State(NamedTuple):
        x: Array  # estimate
        g: Array  # last local gradient
        d: Array  # dual variable, the correction of the local gradient
        h: Array  # surrogate of y that the neighbours know
        hw: Array  # sum of A_ij h_j

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.alpha <= 1, f"alpha must be in (0, 1], not {self.alpha}")
        require(
            getattr(self.compressor, "unbiased", False),
            f"lead diverges with compress={self.compress}, whose errors do not average out; it "
            "takes none, bfloat16, float16, float32 and qsgd (beer takes them all)",
        )

    @property
    def compressor(self) -> Compressor:
        made = super().compressor
        return made.without_factor() if isinstance(made, Qsgd) else made

    def init(self, x: Array, grad: Gradient) -> State:
        zero = np.zeros_like(x)
        return self.State(x, grad(x), zero, zero, zero)

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, g, d, h, hw = state
        a = self.rate(t)
        y = x - a * g - a * d
        ((q, aq),) = mix.compressed(y - h)
        mixed = aq.wait()
        d = d + self.gossip(x) / (2 * a) * ((h + q) - (hw + mixed))
        x = x - a * g - a * d
        return self.State(x, grad(x), d, h + self.alpha * q, hw + self.alpha * mixed)
