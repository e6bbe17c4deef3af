"""The interface of an algorithm: hyper-parameters, a State of arrays, `init` and `step`."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError

Array = NDArray[Any]
Graph = Literal["any", "static", "symmetric", "directed"]


class Gradient(Protocol):
    """The gradients of one node's f_i, in `init` and in a step."""

    def __call__(self, x: Array) -> Array:
        """Return the stochastic gradient at x; all calls in one step have the same draw."""
        ...

    def full(self, x: Array) -> Array:
        """Return the exact gradient at x."""
        ...


class Pending(Protocol):
    """A mixed vector whose parts may still be on their way."""

    def wait(self) -> Array:
        """Return sum_j A_ij z_j in an array that the caller owns. To be called once."""
        ...


class PendingEach(Protocol):
    """The vectors of all neighbours, which may still be on their way."""

    def wait(self) -> dict[int, Array]:
        """Return every neighbour's vector by its number, ascending. To be called once."""
        ...


class Mix(Protocol):
    """A function that sends vectors to the neighbours and returns one pending result for each."""

    def __call__(self, *vectors: Array) -> "tuple[Pending, ...]": ...

    def each(self, *vectors: Array) -> "tuple[PendingEach, ...]":
        """Send vectors in the same way; the results keep the neighbours' vectors apart."""
        ...

    def compressed(self, *vectors: Array) -> "tuple[tuple[Array, Pending], ...]":
        """Send payloads of the algorithm's `compressor`, all in one exchange.

        For each vector: C(z) as the neighbours decode it, and the pending sum_j A_ij C(z_j).
        """
        ...


class Place(Protocol):
    """A method's view of its node: the optional last argument `place` of `init` and `step`.

    All of it is fixed by the run, so that a step that uses it can be repeated and resumed.
    """

    @property
    def node(self) -> int:
        """The number of this node, from 0."""
        ...

    @property
    def nodes(self) -> int:
        """The number of all nodes."""
        ...

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The numbers of the neighbours, ascending (also under the name `neighbors`).

        These are all nodes that it hears or that hear it, on a changing graph at any time.
        """
        ...

    @property
    def sources(self) -> tuple[int, ...]:
        """The neighbours that this node hears."""
        ...

    @property
    def targets(self) -> tuple[int, ...]:
        """The neighbours that hear this node."""
        ...

    def layer(self, t: int) -> Any:
        """Return the node's part of the graph at step t.

        It has `sources` and `targets`, and for each kind of matrix ("A", "pull", "push") the
        `weights` of the sources and the `own` one.
        """
        ...

    @property
    def weights(self) -> Mapping[int, float]:
        """This node's row of A: A_ij by j, for its sources and itself; of one A that stays."""
        ...

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the run; all arrays have one row per seed."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of all vectors."""
        ...

    @property
    def constants(self) -> Any:
        """The `Constants` of this node's f_i (L, G, sigma2, f_min), or None if it has none."""
        ...

    def random(
        self, seed: int, purpose: int, block: int = 0, shared: bool = False
    ) -> np.random.Generator:
        """Return a generator that is fixed by its arguments and this node.

        The numbers are never those of the problem, whatever purposes both choose. `shared`: the
        same generator on every node.
        """
        ...

    def draws(self, t: int, purpose: int, width: int) -> Array:
        """Return uniform numbers in [0, 1) for iteration t, (seeds, width), read-only."""
        ...


@dataclass(frozen=True)
class Algorithm(ABC):
    """One method: its hyper-parameters, and its update for one node.

    A subclass is a frozen dataclass; its fields are the options of its specification. Its State
    is a NamedTuple of arrays whose first field is `x`, of shape (seeds, dim); the others may have
    any shape (seeds, k). No array is ever changed in place: an update makes new ones. `init` and
    `step` of a subclass may have a last argument called `place`, which is a `Place`.

    A step may decide on t, the same on all nodes. With a method `phase(t)`, whose value fixes all
    such decisions, it is compiled nevertheless, once per phase. A method that exchanges at some
    iterations only has an attribute `every`, often an option: `mix` is called where
    t % every == 0. A method that calls `mix.compressed` has an attribute `compressor`.

    Options:
        lr > 0: stepsize a
        schedule: constant for a_t = a, sqrt for a_t = 100 a / (100 + sqrt t)
    """

    lr: float = 0.01
    schedule: Literal["constant", "sqrt"] = "constant"

    display_name: ClassVar[str] = ""
    """The name in tables, figures and claims; empty: the command-line name."""
    tracks: ClassVar[bool] = False
    """True if the State has `s` and `g` with mean_i s_i = mean_i g_i."""
    graph: ClassVar[Graph] = "any"
    """The graphs it is for: A doubly stochastic, and maybe changing; one A; one symmetric A;
    strongly connected digraphs too, maybe changing (directed)."""
    kinds: ClassVar[tuple[str, ...]] = ("A",)
    """The matrix of each vector of `mix`, of which the last repeats: A (doubly stochastic), pull
    (rows sum to one) or push (columns do)."""

    def __post_init__(self) -> None:
        require_positive("lr", self.lr)
        require(
            self.schedule in ("constant", "sqrt"),
            f"schedule must be constant or sqrt, not {self.schedule}",
        )

    @property
    def compressor(self) -> Any:
        """The Compressor of `mix.compressed`, None if it is not called."""
        return None

    def fitted(self, x: Array, label: str) -> "Algorithm":
        """Return the algorithm for vectors like x; raise UserError if it cannot take them."""
        return self

    @property
    def needs_full(self) -> bool:
        """True if it calls `grad.full`."""
        return False

    def rate(self, t: int) -> float:
        """Return the stepsize a_t: constant, or 100 a / (100 + sqrt t)."""
        return self.lr if self.schedule == "constant" else 100 * self.lr / (100 + t**0.5)

    @abstractmethod
    def init(self, x: Array, grad: Gradient) -> Any:
        """Return the State at t = 1.

        Parameters
        ----------
        x
            The first estimate, (seeds, dim).
        grad
            The stochastic gradient, with the draw of t = 1; `grad.full` is the exact one.
        """

    @abstractmethod
    def step(self, t: int, state: Any, mix: Mix, grad: Gradient) -> Any:
        """Return the State at t + 1.

        Parameters
        ----------
        t
            The iteration, from 1.
        state
            The State at t.
        mix
            The exchange with the neighbours; each result must be waited for once.
        grad
            The stochastic gradient, with the draw of t + 1 in every call; `grad.full` is the
            exact one.
        """


def require(condition: bool, message: str) -> None:
    """Raise ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


def require_positive(name: str, value: float) -> None:
    """Raise ValueError unless the value is finite and > 0."""
    require(math.isfinite(value) and value > 0, f"{name} must be finite and > 0, not {value}")


def require_decay_rates(beta1: float, beta2: float = 0.5) -> None:
    """Raise ValueError unless beta1 is in [0, 1) and beta2 in (0, 1)."""
    require(0 <= beta1 < 1, f"beta1 must be in [0, 1), not {beta1}")
    require(0 < beta2 < 1, f"beta2 must be in (0, 1), not {beta2}")


def exchange_interval(algorithm: Any) -> int:
    """Return the iterations from one exchange to the next: the attribute `every`, or 1."""
    every = getattr(algorithm, "every", 1)
    if type(every) is not int or every < 1:
        name = type(algorithm).__name__
        raise UserError(f"{name}.every must be a whole number >= 1, not {every!r}")
    return every


def round_up(iterations: int, every: int) -> int:
    """Return the least multiple of `every` that is not less."""
    return -(-iterations // every) * every


def require_unit(name: str, value: float) -> None:
    """Raise ValueError unless the value is in [0, 1]."""
    require(0 <= value <= 1, f"{name} must be in [0, 1], not {value}")


def require_interval(name: str, value: int, least: int = 1) -> None:
    """Raise ValueError unless a number of iterations is at least `least`."""
    require(least <= value < 2**53, f"{name} must be at least {least}, not {value}")


def require_start(start: str) -> None:
    """Raise ValueError unless the first estimator is full or batch."""
    require(start in ("full", "batch"), f"start must be full or batch, not {start}")


def require_order(order: str) -> None:
    """Raise ValueError unless the order is cta or atc."""
    require(order in ("cta", "atc"), f"order must be cta or atc, not {order}")


def clip(v: Array, lowest: float, highest: float) -> Array:
    """Return v clipped entrywise; on small arrays this is much faster than `np.clip`."""
    return np.maximum(np.minimum(v, highest), lowest)
