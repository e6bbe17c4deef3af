"""What every problem is: one node's part of it, for all seeds, and where its numbers come from."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import kernels

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
        key = np.array([seed, key_word(purpose, owner)], dtype=np.uint64)
        counter = np.array([0, block, 0, 0], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))


def key_word(purpose: int, owner: int) -> int:
    return purpose << 32 | owner


def require(condition: bool, message: str) -> None:
    """Refuse an option outside its domain."""
    if not condition:
        raise ValueError(message)


if TYPE_CHECKING or kernels.C is None:

    class Window:
        """The numbers of some iterations in a row; kernels/draws.c has its twin."""

        _numbers: Any = None  # (iterations, seeds, width)
        _first: int = 0
        _count: int = 0

        def at(self, t: int) -> Array:
            """The numbers of iteration t, (seeds, width)."""
            place = t - self._first
            if not 0 <= place < self._count:
                place = self._fill(t - 1)
            numbers: Array = self._numbers[place]
            return numbers

        def _fill(self, index: int) -> int: ...

else:
    Window = kernels.C.Window


class Draws(Window):
    """Fresh numbers for each t = 1, 2, ... and seed, shape (seeds, width); any t at any time.

    A generator is made for a block of iterations: making one costs more than a step. The
    block length depends on `width` alone, so that batched and single seeds draw alike. The
    compiled kernels need no generator and draw the same numbers a few iterations at a time,
    which stay in the cache.
    """

    AT_ONCE = 2048  # numbers that the kernels draw

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
        self._program = getattr(transform, "program", None)  # the same for the kernels
        self._length = max(1, min(256, 65536 // width))
        self._width = width
        self._seeds = np.array(place.seeds, dtype=np.uint64)
        self._word = key_word(purpose, place.node)
        self._window = self._length
        if kernels.C is not None:
            few = max(1, self.AT_ONCE // (width * len(place.seeds)))
            self._window = min(self._length, few)

    def __call__(self, t: int) -> Array:
        return self.at(t)

    def _fill(self, index: int) -> int:
        """Draw the numbers of an iteration and some that follow it; its place among them."""
        block, row = divmod(index, self._length)
        first = row - row % self._window
        rows = min(self._window, self._length - first)
        uniform = np.empty((rows, len(self._seeds), self._width))
        if kernels.C is None:
            for column, seed in enumerate(self._place.seeds):
                generator = self._place.random(seed, self._purpose, block)
                uniform[:, column] = generator.random((rows, self._width))
        else:
            kernels.C.uniform(uniform, self._seeds, self._word, block, first)
        self._numbers = np.asarray(self._transform(uniform))
        self._numbers.flags.writeable = False
        self._first = index + 1 - row + first
        self._count = rows
        return row - first


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
    _kernel: Callable[[int, Array], Array] | None = None
    """What the loop calls instead of `gradient`, for the same without a frame of Python's."""

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
