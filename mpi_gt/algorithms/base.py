"""What every algorithm is: hyper-parameters, a State of arrays, `init` and `step`."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Gradient = Callable[[Array], Array]


class Pending(Protocol):
    """A mixed vector that may still be travelling."""

    def wait(self) -> Array:
        """sum_j A_ij z_j, in an array of the caller's own; to be called once."""
        ...


class Mix(Protocol):
    """`mix(z, ...)` sends the vectors to the neighbours and gives one pending result for each."""

    def __call__(self, *vectors: Array) -> "tuple[Pending, ...]": ...


@dataclass(frozen=True)
class Algorithm(ABC):
    """One method: its hyper-parameters, and its update for one node.

    `init(x, grad)` makes the State at t = 1, `step(t, state, mix, grad)` the State at t + 1.
    `grad` is called once in each, at the new x, and draws afresh for that t. A State is a
    NamedTuple of arrays of shape (seeds, dim) whose first is `x`. Arrays are never written to:
    an update makes new ones.
    """

    lr: float = 0.01
    schedule: Literal["constant", "sqrt"] = "constant"

    display_name: ClassVar[str] = ""
    """The name in tables, figures and claims; empty: the name on the command line."""
    tracks: ClassVar[bool] = False
    """Whether State has `s` and `g` with mean_i s_i = mean_i g_i."""

    def __post_init__(self) -> None:
        require_positive("lr", self.lr)
        require(
            self.schedule in ("constant", "sqrt"),
            f"schedule must be constant or sqrt, not {self.schedule}",
        )

    def rate(self, t: int) -> float:
        """The stepsize a_t: constant, or 100 a / (100 + sqrt t)."""
        return self.lr if self.schedule == "constant" else 100 * self.lr / (100 + t**0.5)

    @abstractmethod
    def init(self, x: Array, grad: Gradient) -> Any: ...

    @abstractmethod
    def step(self, t: int, state: Any, mix: Mix, grad: Gradient) -> Any: ...


def require(condition: bool, message: str) -> None:
    """Refuse a hyper-parameter outside its domain."""
    if not condition:
        raise ValueError(message)


def require_positive(name: str, value: float) -> None:
    require(math.isfinite(value) and value > 0, f"{name} must be finite and > 0, not {value}")


def require_decay_rates(beta1: float, beta2: float = 0.5) -> None:
    require(0 <= beta1 < 1, f"beta1 must be in [0, 1), not {beta1}")
    require(0 < beta2 < 1, f"beta2 must be in (0, 1), not {beta2}")


def require_order(order: str) -> None:
    require(order in ("cta", "atc"), f"order must be cta or atc, not {order}")


def clip(v: Array, lowest: float, highest: float) -> Array:
    """Clip(v, lowest, highest) entrywise; for small arrays far quicker than `np.clip`."""
    return np.maximum(np.minimum(v, highest), lowest)
