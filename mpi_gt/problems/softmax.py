"""Multinomial logistic regression with the non-convex Geman-McClure regulariser."""

import math
from typing import Any

import numpy as np

from .. import kernels
from ..fuse import entrywise
from ..kernels import fixed_order
from .base import Array, Constant, Constants, Draws, Place, require
from .classification import Classification
from .cross_entropy import slopes


class Softmax(Classification):
    """Multinomial logistic regression with the Geman-McClure regulariser.

        f_i(W) = mean_j -log softmax(W y_j)[l_j] + reg sum w²/(1 + w²) over this node's rows

    W is (classes, features), flattened, without a bias. A stochastic gradient takes `batch` rows,
    drawn with replacement. `split` decides which rows a node has: iid, label (sorted) or
    dirichlet:CONC; it depends on `split_seed`, not on the run's seeds. The data is a `dataset` by
    name, of which `synthetic` has options `rows`, `features` and `classes`, or a file:
    `data=FILE.npz` with X and y, or `libsvm=FILE`, whose number of columns is `features`.

    Options:
        dataset NAME: synthetic, or a name that `mpi-gt data list` shows
        batch >= 1: rows per stochastic gradient
        reg >= 0: weight of the regulariser
        split iid, label or dirichlet:CONC: how the rows are distributed over the nodes
        split_seed >= 0: seed of that split
        rows >= 1, default 4096: rows of the synthetic data
        features >= 1, default 20: columns of the synthetic data or of the libsvm file
        classes >= 2, default 4: classes of the synthetic data
        data FILE.npz, default none: data of your own, X (rows, features) and y (rows,)
        libsvm FILE, default none: data of your own in LIBSVM format
    """

    COMPILED = (np.uint8, np.float32, np.float64)  # dtypes of rows for the compiled gradient

    def __init__(
        self,
        place: Place,
        *,
        dataset: str = "synthetic",
        batch: int = 32,
        reg: float = 0.01,
        split: str = "iid",
        split_seed: int = 0,
        rows: int | None = None,
        features: int | None = None,
        classes: int | None = None,
        data: str | None = None,
        libsvm: str | None = None,
    ) -> None:
        chosen: dict[str, Any] = {
            "dataset": dataset, "batch": batch, "split": split, "split_seed": split_seed,
            "data": data, "libsvm": libsvm, "rows": rows, "features": features, "classes": classes,
        }  # fmt: skip
        self.check_options(reg=reg, **chosen)
        self._load(place, **chosen)
        self.reg = reg
        self._multiply = fixed_order.multiply if place.reproducible else np.matmul
        self._regularised = entrywise(self._add_regulariser, arrays=2)
        self.dim = self.classes * self._x.shape[1]
        if type(self).gradient is Softmax.gradient:  # a subclass may have a gradient of its own
            self._kernel = self._compile(place)

    def _compile(self, place: Place) -> Any:
        """Return the compiled gradient; None without the kernels, or in a fixed order."""
        if kernels.C is None or place.reproducible or self._x.dtype not in self.COMPILED:
            return None
        uniform = Draws(place, self.BATCH, self.batch)
        return kernels.C.Softmax(
            np.ascontiguousarray(self._x),
            self._labels,
            self.classes,
            self.batch,
            self._scale,
            self.reg,
            uniform,
            np.matmul,
            self.gradient,
        )

    @classmethod
    def check_options(cls, *, reg: float = 0.01, **options: Any) -> None:
        """Raise an error for what shows without the data: nothing is downloaded in vain."""
        super().check_options(**options)
        require(0 <= reg < math.inf, f"reg must be >= 0, not {reg}")

    @classmethod
    def _widths(cls, features: int, classes: int, **options: Any) -> tuple[int, int]:
        return features * classes, classes

    def gradient(self, t: int, x: Array) -> Array:
        rows = self._rows.at(t)  # (seeds, batch)
        seeds, batch = rows.shape
        w = x.reshape(seeds, self.classes, -1)
        y = self._x[rows].astype(x.dtype)
        # scale the small products, not the features
        p = self._multiply(y, w.transpose(0, 2, 1))  # (seeds, batch, classes)
        p *= self._scale
        labels = self._labels[rows].reshape(-1)
        slopes(p.reshape(-1, 1, self.classes), labels, self._scale / batch)
        product = self._multiply(p.transpose(0, 2, 1), y).reshape(x.shape)
        return self._regularised(product, x)

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """Return loss and gradient over all rows of this node, in chunks that bound the memory."""
        loss, gradient, correct = self._sum_over_rows(x)
        self._evaluated = x, correct / len(self._x)
        regulariser = self.reg * (x * x / (1 + x * x)).sum(axis=-1)
        gradient = self._regularised(gradient / len(self._x), x)
        return loss / len(self._x) + regulariser, gradient

    def constants(self) -> Constants:
        """Return bounds; only L is exact, with two classes, where W = 0 reaches it."""
        largest, curvature = self._row_norms()
        steepest = self.reg * 9 / (8 * math.sqrt(3))  # |d/dw reg w²/(1 + w²)|, at w² = 1/3
        return Constants(
            L=Constant(0.5 * curvature + 2 * self.reg, exact=self.classes == 2 and not self._wide),
            G=Constant(math.sqrt(2 * largest) + steepest * math.sqrt(self.dim), False),
            sigma2=Constant(2 * largest / self.batch, False),
            f_min=Constant(0.0, False),
        )

    @property
    def _wide(self) -> bool:
        # then the trace bounds the largest eigenvalue, which would take long to compute
        return self._x.shape[1] > 4096

    def _row_norms(self) -> tuple[float, float]:
        """Return the largest ||y||² and the largest eigenvalue of the mean of y y' (or a bound)."""
        largest, total = 0.0, np.zeros(1 if self._wide else (self._x.shape[1],) * 2)
        for begin in range(0, len(self._x), self._chunk_rows):
            y = self._x[begin : begin + self._chunk_rows].astype(np.float64) * self._scale
            squares = np.square(y).sum(axis=1)
            largest = max(largest, float(squares.max()))
            total += squares.sum() if self._wide else y.T @ y
        top = total[0] if self._wide else np.linalg.eigvalsh(total)[-1]
        return largest, float(top) / len(self._x)

    def _score(self, rows: Array, labels: Array, x: Array) -> Array:
        z = self._multiply(rows * self._scale, self._stacked(x)).reshape(len(rows), len(x), -1)
        correct: Array = (z.argmax(axis=2) == labels[:, np.newaxis]).sum(axis=0)
        return correct

    def _stacked(self, x: Array) -> Array:
        """Return the weights of all seeds side by side, (features, seeds * classes)."""
        return np.ascontiguousarray(x.reshape(len(x) * self.classes, -1).T)

    def _sum_over_rows(self, x: Array) -> tuple[Array, Array, Array]:
        """Return sums over the rows: loss (seeds,), gradient (seeds, dim), correct (seeds,)."""
        seeds = len(x)
        w = self._stacked(x) * self._scale
        loss, correct = np.zeros(seeds), np.zeros(seeds, np.int64)
        gradient = np.zeros((seeds * self.classes, self._x.shape[1]))
        for begin in range(0, len(self._x), self._chunk_rows):
            y = self._x[begin : begin + self._chunk_rows].astype(np.float64)
            z = self._multiply(y, w).reshape(len(y), seeds, self.classes)
            labels = self._labels[begin : begin + len(y)]
            slopes(z, labels, 1.0, loss, correct, self._place.reproducible)
            gradient += self._multiply(z.reshape(len(y), -1).T, y)
        gradient *= self._scale
        return loss, gradient.reshape(seeds, -1), correct

    def _add_regulariser(self, gradient: Array, x: Array) -> Array:
        return gradient + 2 * self.reg * x / np.square(1 + x * x)
