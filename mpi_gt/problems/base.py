"""The interface of a problem, and the random numbers of its nodes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import kernels

Array = NDArray[Any]


@dataclass(frozen=True)
class Place:
    """The place of a problem in a run: its node, its seeds, and that node's random numbers.

    Parameters
    ----------
    node
        The number of this node, from 0.
    nodes
        The number of all nodes.
    seeds
        The seeds of the run; all arrays have one row per seed.
    dtype
        The dtype of x and of the gradients.
    part
        This node's item of the list that `Problem.parts` returned on root.
    reproducible
        True: the run is to give the same bits on every processor. The products of numpy do not;
        `mpi_gt.kernels.fixed_order` has some that do.
    data_dir
        The option --data-dir, where raw files of datasets are looked for.
    """

    node: int
    nodes: int
    seeds: tuple[int, ...]
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float64))
    part: Any = None
    reproducible: bool = False
    data_dir: str | None = None

    def random(
        self, seed: int, purpose: int, block: int = 0, shared: bool = False
    ) -> np.random.Generator:
        """Return a generator that is fixed by its arguments and this node.

        It is counter-based, so its numbers depend on nothing that happened before: not on the
        MPI, the exchange, the other seeds of the run or a restart.

        Parameters
        ----------
        seed
            One of `seeds`.
        purpose
            A number of the problem's choice below 2^31: each use of random numbers has its own.
            Methods have the numbers from 2^31 on (see `engine.place`).
        block
            The number of a block within one purpose.
        shared
            True: the same generator on every node.

        Returns
        -------
        numpy.random.Generator
        """
        owner = 0xFFFFFFFF if shared else self.node
        key = np.array([seed, key_word(purpose, owner)], dtype=np.uint64)
        counter = np.array([0, block, 0, 0], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))

    def dataset(
        self, name: str, split: str = "iid", part: str = "train", split_seed: int = 0
    ) -> tuple[Array, Array]:
        """Return this node's rows of a dataset: features (rows, columns) and labels (rows,).

        All nodes have the same number of rows, none of them twice; the remainder is left out.
        Only these rows are read, and compared with their digests. A dataset that is not in the
        cache is prepared first, by one process of each host.

        Parameters
        ----------
        name
            A name that `mpi-gt data list` shows, or synthetic.
        split
            How the rows are distributed over the nodes: iid, label (sorted) or dirichlet:CONC.
        part
            train or test.
        split_seed
            The seed of the split (and of the synthetic rows).

        Returns
        -------
        tuple of arrays
            The features in the dtype of the run, scaled, and the labels, from 0.
        """
        from .rows import rows_of_dataset  # here: few problems need it

        return rows_of_dataset(self, name, split, part, split_seed)


def key_word(purpose: int, owner: int) -> int:
    """Return the second word of a Philox key."""
    return purpose << 32 | owner


def require(condition: bool, message: str) -> None:
    """Raise ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


if TYPE_CHECKING or kernels.C is None:

    class Window:
        """The numbers of some consecutive iterations; kernels/draws.c has its compiled twin."""

        _numbers: Any = None  # (iterations, seeds, width)
        _first: int = 0
        _count: int = 0

        def at(self, t: int) -> Array:
            """Return the numbers of iteration t, (seeds, width)."""
            place = t - self._first
            if not 0 <= place < self._count:
                place = self._fill(t - 1)
            numbers: Array = self._numbers[place]
            return numbers

        def _fill(self, index: int) -> int: ...

else:
    Window = kernels.C.Window


class Draws(Window):
    """Independent random numbers for each iteration t = 1, 2, ... and seed.

    `draws(t)` returns an array of shape (seeds, width), for any t at any time.

    Parameters
    ----------
    place
        The node and its seeds.
    purpose
        A number of the problem's choice: each use of random numbers has its own.
    width
        The number of random numbers per iteration and seed.
    transform
        A function of uniform numbers in [0, 1), shape (iterations, seeds, width); by default
        the identity.
    """

    # A generator serves a block of iterations: making one costs more than a step. The block
    # length depends on `width` alone, so that several seeds draw the same numbers as one. The
    # compiled kernels need no generator and draw the same numbers for a few iterations at a
    # time, so that they stay in the cache.
    AT_ONCE = 2048  # numbers that the kernels draw at once

    def __init__(
        self,
        place: Place,
        purpose: int,
        width: int,
        transform: Callable[[Array], Array] | None = None,
    ) -> None:
        self._place = place
        self._purpose = purpose
        self._transform = transform
        self._identity = transform is None
        self._program = getattr(transform, "program", None)  # compiled, for the kernels
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
        """Draw the numbers of the iteration with this index and of some that follow it.

        Return the position of that iteration among them.
        """
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
        self._numbers = uniform if self._transform is None else np.asarray(self._transform(uniform))
        self._numbers.flags.writeable = False
        self._first = index + 1 - row + first
        self._count = rows
        return row - first


class Constant(NamedTuple):
    """A constant of f_i."""

    value: float
    exact: bool  # False: an upper bound (of f_min: a lower one)


class Constants(NamedTuple):
    """The constants of one node's f_i that the theory needs, the worst over all seeds."""

    L: Constant  # Lipschitz constant of the gradient
    G: Constant  # largest norm of a stochastic gradient
    sigma2: Constant  # largest variance of a stochastic gradient
    f_min: Constant  # least value of f_i; exact if all nodes reach it at the same point


class Problem(ABC):
    """One node's f_i, for all seeds at once.

    A subclass sets `dim`, the length of x. It may also have `constants()`, which returns the
    Constants for the theory and for methods, `accuracy(x)` with one number per seed, and
    `test_score(x)` with the correctly classified test rows per seed, followed by all test rows.
    The x of these two and of `metrics` is xbar, the mean over all nodes.
    `batch` and `rows` are the sample gradients that a call of `gradient` and an exact gradient
    take (1 each if not set): the column `gradients` of metrics.csv counts them.

    Parameters
    ----------
    place
        The node, the seeds and the random numbers.
    **options
        The options of the specification; a subclass declares each with a type and a default.
    """

    dim: int
    exact: bool = True
    """False if `evaluate` only estimates: methods that need exact gradients are then refused."""
    _kernel: Callable[[int, Array], Array] | None = None
    """A compiled function that the loop calls instead of `gradient`, with the same result."""
    start_differs: ClassVar[bool] = False
    """True if each node has a start of its own; else `start` must agree on all nodes."""

    @abstractmethod
    def __init__(self, place: Place, **options: Any) -> None: ...

    @abstractmethod
    def gradient(self, t: int, x: Array) -> Array:
        """Return the stochastic gradient of f_i with the random numbers of iteration t.

        Parameters
        ----------
        t
            The iteration, from 1.
        x
            The points, (seeds, dim), which must not be changed.

        Returns
        -------
        array
            A new array of the shape and dtype of x.
        """

    @abstractmethod
    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """Return the exact f_i and its gradient at x.

        Parameters
        ----------
        x
            The points, (seeds, dim), in float64.

        Returns
        -------
        tuple of arrays
            The loss (seeds,) and the gradient (seeds, dim).
        """

    def start(self, seed: int) -> Array:
        """Return x_1 for one of the run's seeds, (dim,), the same on every node; by default zeros.

        Random numbers that all nodes share are those of `place.random(seed, purpose, shared=True)`.
        The option --x1 goes first.
        """
        return np.zeros(self.dim)

    def metrics(self, x: Array) -> dict[str, Array]:
        """Return numbers to be logged, by name: one number per seed each, (seeds,).

        Each becomes a column of metrics.csv, the mean over all nodes. Names are identifiers, and
        the same at all times and on all nodes.

        Parameters
        ----------
        x
            The mean of all nodes' points, (seeds, dim), in float64.
        """
        return {}

    def least_value(self) -> float | None:
        """Return this node's share of f*, the least value of f; None if it is not known.

        It is the least value of f_i, if all nodes reach theirs at the same point. By default the
        constants tell.
        """
        constants = getattr(self, "constants", None)
        least = None if constants is None else constants().f_min
        return least.value if least is not None and least.exact else None

    def facts(self) -> dict[str, Any]:
        """Return facts about the data for run.json, the same on every node."""
        return {}

    @classmethod
    def check_options(cls, **options: Any) -> None:
        """Raise ValueError for options that can be judged before anything is made or downloaded."""
        return

    @classmethod
    def prepare(cls, data_dir: str | None, say: Callable[[str], None], **options: Any) -> None:
        """Prepare files that all ranks of a host read later. One rank per host calls it, first.

        `say` shows a message to the user; `data_dir` is the option --data-dir.
        """
        return

    @classmethod
    def least_memory(cls, nodes: int, here: int, seeds: int, itemsize: int, **options: Any) -> int:
        """Return the least bytes for `here` of the nodes in one process, as the options tell.

        A run that cannot fit is refused before anything is made.
        """
        return 0

    @classmethod
    def parts(cls, nodes: int, **options: Any) -> list[Any] | None:
        """Return one part per node of a file that only root reads; None if there is no such file.

        Each node gets its item as `place.part`.
        """
        return None
