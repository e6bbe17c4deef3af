"""The base of problems with a model of the user's: rows, chunks, trial, versions."""

from abc import abstractmethod
from typing import Any

import numpy as np

from ..base import Array, Place, require
from ..classification import Classification
from .references import digest_of, instructions, require_package, require_reference, versions_of

INTERPRETER = 100 << 20
"""Bytes that a process with JAX or PyTorch takes at least."""


class ModelProblem(Classification):
    """A model that the user wrote, on one node's rows of a dataset or of a file.

    A subclass has `_gradients` and `_means` for rows by their indices, and `start`. The loss of
    several rows must be the mean of their losses, else batches, chunks and nodes would not add up.
    """

    NAME = ""  # in PROBLEMS, and of the extra that installs the packages
    PACKAGES: tuple[str, ...] = ()
    EXAMPLE = ""

    model: str
    warnings: list[str]  # for run.json
    _scores: bool = True  # False: the model does not predict

    def _open(self, place: Place, options: dict[str, Any], **references: str | None) -> None:
        """Check the options, and read this node's rows. `references` are options as well."""
        self.check_options(**references, **options)
        require(
            not place.reproducible,
            f"reproducible: {self.PACKAGES[0]} adds up as the processor suits it; softmax and "
            "huber give the same bits on every processor",
        )
        self._load(place, **options)
        self.model = str(references["model"])
        self.warnings = []

    def _without_scores(self) -> None:
        """Have no accuracy: the model does not predict."""
        self._scores, self._test = False, None
        self.accuracy = None  # type: ignore[assignment, method-assign]

    @classmethod
    def check_options(cls, *, model: str | None = None, **options: Any) -> None:
        """Raise an error for what shows without the data and without importing anything."""
        super().check_options(**options)
        require_reference("model", model, cls.EXAMPLE)
        require_package(cls.NAME, cls.PACKAGES[0])

    @classmethod
    def identity(cls, *, model: str | None = None, **options: Any) -> dict[str, Any]:
        """Return what decides the numbers besides the options: the code and what compiles it."""
        return {
            "source": digest_of(str(model)),
            **versions_of(*cls.PACKAGES),
            "processor": instructions(),
        }

    def facts(self) -> dict[str, Any]:
        """Return the size of the data and the model, and the versions that compute it."""
        versions = {**versions_of(*self.PACKAGES), "processor": instructions()}
        return {**super().facts(), "parameters": self.dim, "computed_by": versions}

    @classmethod
    def _widths(cls, features: int, classes: int, **options: Any) -> tuple[int, int]:
        return 0, 0  # they are the model's

    @classmethod
    def least_memory(cls, nodes: int, here: int, seeds: int, itemsize: int, **options: Any) -> int:
        """Return the bytes of the rows, of a batch, and of the interpreter with its packages."""
        for name in ("model", "loss"):
            options.pop(name, None)
        return INTERPRETER + super().least_memory(nodes, here, seeds, itemsize, **options)

    @abstractmethod
    def _gradients(self, x: Array, rows: Array) -> Array:
        """Return the gradient of each seed's loss at x over its own rows (seeds, batch)."""

    @abstractmethod
    def _means(self, x: Array, rows: Array) -> tuple[Array, Array, Array]:
        """Return mean loss, its gradient, and the correct rows, over these rows (rows,), per seed.

        x is in float64, and so is all that is computed.
        """

    def gradient(self, t: int, x: Array) -> Array:
        return self._gradients(x, self._rows.at(t))

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """Return loss and gradient over all rows of this node, in chunks that bound the memory."""
        loss, gradient = np.zeros(len(x)), np.zeros(x.shape)
        correct = np.zeros(len(x), np.int64)
        size = self._chunk_rows
        for begin in range(0, self.rows, size):
            rows = np.arange(begin, min(begin + size, self.rows))
            part, slope, right = self._means(x, rows)
            loss += len(rows) * part
            gradient += len(rows) * slope
            correct += right
        self._evaluated = x, correct / self.rows
        gradient /= self.rows
        return loss / self.rows, gradient

    @property
    def _chunk_rows(self) -> int:
        return chunk_size(self.rows, max(1, self.CHUNK // self._x.shape[1]))

    def try_out(self, x1: Array) -> None:
        """Compute once all that iterations compute, and compile it; refuse what cannot work."""
        gradient = self.gradient(1, x1)
        x = np.asarray(x1, np.float64)
        rows = np.arange(self._chunk_rows)
        loss, slope, _ = self._means(x, rows)
        for values, name in ((loss, "loss"), (slope, "gradient"), (gradient, "gradient")):
            bad = np.flatnonzero(~np.isfinite(values.reshape(len(x), -1)).all(axis=1))
            if len(bad):
                seed = self._place.seeds[bad[0]]
                shown = f" is {loss[bad[0]]}" if name == "loss" else " is not finite"
                raise ValueError(
                    f"the {name} of {self.model}{shown} at the start (seed {seed}, node "
                    f"{self._place.node})"
                )
        if self.rows % len(rows):
            self._means(x, rows[: self.rows % len(rows)])  # the last chunk
        self._require_mean(x1, rows)

    def _require_mean(self, x1: Array, rows: Array) -> None:
        """Raise ValueError unless the loss of several rows is the mean of their losses."""
        x = np.asarray(x1, np.float64)
        # one row, a few times and many times
        few = self._gradients(x1, np.zeros((len(x1), self.batch), np.intp)).astype(np.float64)
        first, many, _ = self._means(x, np.zeros_like(rows))
        alike = bool(np.linalg.norm(few - many) <= 1e-3 * (np.linalg.norm(many) + 1e-3))
        if len(rows) > 1:  # two rows, each many times, and together
            last = self._means(x, np.full_like(rows, self.rows - 1))[0]
            both = self._means(x, np.where(rows < len(rows) // 2, 0, self.rows - 1))[0]
            share = (len(rows) // 2) / len(rows)
            mean = share * first + (1 - share) * last
            alike = alike and bool(np.allclose(both, mean, rtol=1e-4, atol=1e-6))
        require(
            alike,
            f"{self.model}: the loss of several rows must be the mean of the losses of each of "
            "them (not their sum, and no row may depend on the others, as with batch statistics)",
        )


def chunk_size(rows: int, most: int) -> int:
    """Return rows per chunk, at most `most`: a divisor of `rows` if there is a fair one.

    A last chunk of another size would have to be compiled separately.
    """
    if rows <= most:
        return rows
    fair = (size for size in range(most, most // 4, -1) if rows % size == 0)
    return next(fair, -(-rows // -(-rows // most)))
