"""Tracking of the momentum."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ..fuse import fused
from .base import Algorithm, Array, Gradient, Mix, require_decay_rates


@dataclass(frozen=True)
class MomentumTracking(Algorithm):
    """Momentum tracking (Takezawa et al., 2023).

        x+ = A(x - a s)
        u+ = b1 u + g+
        s+ = As + u+ - u

    The start is s = u = g. Like gt it is exact where the nodes differ.

    Options:
        beta1 in [0, 1): decay rate b1 of the momentum u
    """

    beta1: float = 0.9

    display_name: ClassVar[str] = "momentum tracking"
    tracks: ClassVar[bool] = True

    class State(NamedTuple):
        x: Array  # estimate
        s: Array  # tracker of the mean momentum
        g: Array  # u, the local momentum

    def __post_init__(self) -> None:
        super().__post_init__()
        require_decay_rates(self.beta1)

    def init(self, x: Array, grad: Gradient) -> State:
        u = grad(x)
        return self.State(x, s=u, g=u)

    @fused
    def step(self, t: int, state: State, mix: Mix, grad: Gradient) -> State:
        x, s, u = state
        ax, as_ = mix(x - self.rate(t) * s, s)
        x = ax.wait()
        u_new = self.beta1 * u + grad(x)
        return self.State(x, as_.wait() + u_new - u, u_new)
