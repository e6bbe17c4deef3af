"""The arguments of the theory: constants of the problem, graph, hyper-parameters, sums."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ..errors import UserError

Value = float | NDArray[Any]


def require(condition: bool, message: str) -> None:
    """Raise UserError with this message unless the condition holds."""
    if not condition:
        raise UserError(message)


@dataclass(frozen=True)
class Setting:
    """The quantities that the theory depends on, in the letters of the paper; rho is rho_A."""

    n: int
    rho: float
    L: float
    G: float
    sigma2: float
    alpha: float
    beta1: float
    beta2: float
    vmin: float
    vmax: float

    def __post_init__(self) -> None:
        # wide limits, within which no square or cube overflows or vanishes
        for name in ("L", "G", "sigma2"):
            value = getattr(self, name)
            require(0 <= value <= 1e30, f"{name} must be in [0, 1e30] for the theory, not {value}")
        require(self.alpha <= 1e50, f"alpha must be at most 1e50 for the theory, not {self.alpha}")
        require(self.alpha >= 1e-135, f"alpha is too small for the theory: {self.alpha}")
        require(self.vmin >= 1e-30, f"vmin must be at least 1e-30 for the theory, not {self.vmin}")
        require(self.rho < 1, f"rho_A must be less than 1, not {self.rho}")

    @property
    def p(self) -> float:
        """1 - rho_A²."""
        return (1 - self.rho) * (1 + self.rho)

    @property
    def momentum(self) -> float:
        """beta1²/(1 - beta1)²."""
        return (self.beta1 / (1 - self.beta1)) ** 2


class Start(NamedTuple):
    """The start of a run: f(xbar_1) - f*, and the distances of the nodes' x, v and s."""

    descent: float
    delta1: float  # ||x_1 - x~_1||²
    delta2: float  # ||v_1 - v~_1||²
    delta3: float  # ||s_1 - s~_1||²

    @property
    def delta(self) -> float:
        """The sum of the three distances."""
        return self.delta1 + self.delta2 + self.delta3


class Sums(NamedTuple):
    """Sums over t = 1..T of squared norms over all nodes, in expectation; numbers or arrays."""

    T: Value
    x: Value  # ||x - x~||²
    s: Value  # ||s - s~||²
    m: Value  # ||m - m~||²
    mbar: Value  # ||m~||²
    v: Value  # ||v - v~||²
    v_next: Value  # the same over t = 2..T+1
    gradient: Value  # ||grad f(xbar)||²
    noise: Value  # sum_i ||eta_i||²
