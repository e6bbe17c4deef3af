"""Gradient tracking on directed graphs by push-sum."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ..base import Algorithm, Array, Gradient, Graph, Mix, require_order
from .sgp import split


@dataclass(frozen=True)
class PushDIGing(Algorithm):
    """Push-DIGing: gradient tracking with push-sum (Nedic, Olshevsky and Shi, 2017).

        u+ = C(u - a s)        (`order=cta`: u+ = Cu - a s, which is ADD-OPT)
        w+ = Cw
        x+ = u+ / w+
        s+ = Cs + g+ - g

    The columns of C (push) sum to one; no other matrix is needed. The start is u = x, w = 1 and
    s = g.

    Options:
        order: atc adapts, then combines; cta combines, then adapts (ADD-OPT)
    """

    order: Literal["cta", "atc"] = "atc"

    display_name: ClassVar[str] = "Push-DIGing"
    tracks: ClassVar[bool] = True
    graph: ClassVar[Graph] = "directed"
    kinds: ClassVar[tuple[str, ...]] = ("push",)

    class State(NamedTuple):
        x: Array  # estimate
        u: Array  # numerator of the estimate
        s: Array  # tracker of the mean gradient
        w: Array  # denominator of the estimate, (seeds, 1)
        g: Array  # last local gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        require_order(self.order)

    def init(self, x: Array, grad: Gradient) -> State:
        g = grad(x)
        return self.State(x, x, s=g, w=np.ones_like(x[..., :1]), g=g)

    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        _, u, s, w, g = state
        descent = self.rate(t) * s
        sent = u - descent if self.order == "atc" else u
        (pushed,) = mix(np.concatenate([sent, s, w], axis=-1))
        u, s, w = split(pushed.wait(), u.shape[-1], s.shape[-1])
        if self.order == "cta":
            u = u - descent
        x = u / w
        g_new = grad(x)
        return self.State(x, u, s + g_new - g, w, g_new)
