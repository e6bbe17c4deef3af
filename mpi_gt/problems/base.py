"""What every problem is: one node's part of it, for all seeds, and where its numbers come from."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Place:
    """Which node of how many, for which seeds; and that node's own random numbers."""

    node: int
    nodes: int
    seeds: tuple[int, ...]
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float64))
    part: Any = None
    """This node's share of what the problem's `parts` read on root."""

    def random(
        self, seed: int, purpose: int, block: int = 0, shared: bool = False
    ) -> np.random.Generator:
        """A generator fixed by its arguments and this node (`shared`: the same on every node).

        Counter-based, so the numbers depend on nothing that happened before: not on the MPI,
        the exchange, the other seeds of the run or a restart.
        """
        owner = 0xFFFFFFFF if shared else self.node
        key = np.array([seed, purpose << 32 | owner], dtype=np.uint64)
        counter = np.array([0, block, 0, 0], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))


def require(condition: bool, message: str) -> None:
    """Refuse an option outside its domain."""
    if not condition:
        raise ValueError(message)


class Draws:
    """Fresh numbers for each t = 1, 2, ... and seed, shape (seeds, width); any t at any time.

    Drawn a block of iterations at a time: making a generator costs more than a step. The
    block length depends on `width` alone, so that batched and single seeds draw alike.
    """

    def __init__(
        self,
        place: Place,
        purpose: int,
        width: int,
        transform: Callable[[Array], Array] = lambda uniform: uniform,
    ) -> None:
        self._place = place
        self._purpose = purpose
        self._transform = transform
        self._length = max(1, min(256, 65536 // width))
        self._shape = (self._length, len(place.seeds), width)
        self._block = -1
        self._numbers: Array

    def __call__(self, t: int) -> Array:
        block, row = divmod(t - 1, self._length)
        if block != self._block:
            self._fill(block)
        return self._numbers[row]

    def _fill(self, block: int) -> None:
        length, _, width = self._shape
        uniform = np.empty(self._shape)
        for column, seed in enumerate(self._place.seeds):
            generator = self._place.random(seed, self._purpose, block)
            uniform[:, column] = generator.random((length, width))
        self._numbers = self._transform(uniform)
        self._numbers.flags.writeable = False
        self._block = block


class Constant(NamedTuple):
    value: float
    exact: bool  # else a bound


class Constants(NamedTuple):
    """What the theory needs to know of one node's f_i, the worst over all seeds."""

    L: Constant  # of the Lipschitz gradient
    G: Constant  # no stochastic gradient is longer
    sigma2: Constant  # the variance of the stochastic gradient, at most
    f_min: Constant  # f_i is never less; exact where all nodes reach it at the same point


class Problem(ABC):
    """One node's f_i for all seeds at once, built as `Problem(place, **options)`.

    A problem that starts from one file, read on root only, also has a class method
    `parts(nodes, **options)` that gives one part a node; each arrives as `place.part`. One that
    the theory can be asked about has `constants()`, which gives its Constants.
    """

    dim: int

    @abstractmethod
    def __init__(self, place: Place, **options: Any) -> None: ...

    @abstractmethod
    def gradient(self, t: int, x: Array) -> Array:
        """The stochastic gradient at x, (seeds, dim), with the draw of iteration t."""

    @abstractmethod
    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """The exact local loss (seeds,) and gradient (seeds, dim) at x."""

    def facts(self) -> dict[str, Any]:
        """What run.json should say of the data, as far as it is the same on every node."""
        return {}

    @classmethod
    def prepare(cls, data_dir: str | None, say: Callable[[str], None], **options: Any) -> None:
        """Make ready what all ranks of a host will read; called on one of them, before all."""
        return

    @classmethod
    def parts(cls, nodes: int, **options: Any) -> list[Any] | None:
        """What root reads for each node, or None where nothing needs reading."""
        return None
