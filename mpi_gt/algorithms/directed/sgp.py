"""Stochastic gradient push: DSGD on directed graphs, by push-sum."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..base import Algorithm, Array, Gradient, Graph, Mix


@dataclass(frozen=True)
class SGP(Algorithm):
    """Stochastic gradient push on directed graphs (Assran et al., 2019).

        u+ = C(u - a g)
        w+ = Cw
        x+ = u+ / w+

    The columns of C (push) sum to one; w, one number per node, tells what C does to a mean, and
    dividing by it makes up for that. The start is u = x and w = 1.
    """

    display_name: ClassVar[str] = "SGP"
    graph: ClassVar[Graph] = "directed"
    kinds: ClassVar[tuple[str, ...]] = ("push",)

    class State(NamedTuple):
        x: Array  # estimate
        u: Array  # numerator of the estimate
        w: Array  # its denominator, (seeds, 1)
        g: Array  # last local gradient

    def init(self, x: Array, grad: Gradient) -> State:
        return self.State(x, x, np.ones_like(x[..., :1]), grad(x))

    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        _, u, w, g = state
        (pushed,) = mix(np.concatenate([u - self.rate(t) * g, w], axis=-1))
        u, w = split(pushed.wait(), u.shape[-1])
        x = u / w
        return self.State(x, u, w, grad(x))


def split(z: Array, *widths: int) -> list[Array]:
    """Return the pieces of these widths, and the rest, as arrays of their own."""
    return [np.ascontiguousarray(piece) for piece in np.split(z, np.cumsum(widths), axis=-1)]
