"""Multinomial logistic regression with the non-convex Geman-McClure regulariser."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import datasets
from ..array_files import cast
from ..errors import UserError
from ..fuse import entrywise
from ..kernels import fixed_order
from ..memory import VECTORS
from .base import Array, Constant, Constants, Draws, Place, Problem, require
from .cross_entropy import slopes
from .softmax_data import SYNTHETIC, check_sizes, check_source, read_npz


class Shard(NamedTuple):
    """One node's rows of a user's own data."""

    features: Array
    labels: Array
    classes: int
    total: int  # number of rows in the whole file


class Softmax(Problem):
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

    BATCH = 1  # purpose of the random numbers
    CHUNK = 1 << 18  # features that `evaluate` converts at once

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
        sizes = {"rows": rows, "features": features, "classes": classes}
        self.check_options(
            dataset=dataset, batch=batch, reg=reg, split=split, split_seed=split_seed,
            data=data, libsvm=libsvm, **sizes,
        )  # fmt: skip
        self.batch = batch
        self.reg = reg
        self._test: datasets.Source | None = None
        self._sha256 = self.data_sha256(dataset=dataset)
        if data is not None or libsvm is not None:
            shard: Shard = place.part
            self._x, self._labels, self.classes, self._total = shard
            self._x = cast("X", self._x, np.float32)
            self._scale = 1.0
        else:
            source, self._test = _open_dataset(dataset, sizes, split_seed)
            labels = source.labels()
            self._total = len(labels)
            mine = datasets.rows_of_node(split, labels, place.node, place.nodes, split_seed)
            self._x, self._labels = source.read(mine), labels[mine]
            self.classes, self._scale = source.classes, source.scale
        self._labels = self._labels.astype(np.intp)
        self._place = place
        self._multiply = fixed_order.multiply if place.reproducible else np.matmul
        self._evaluated: tuple[Any, Array] = (None, np.empty(0))  # x and the accuracy at it
        self._regularised = entrywise(self._add_regulariser, arrays=2)
        self.dim = self.classes * self._x.shape[1]
        self.rows = shard_rows = len(self._x)
        # u < 1, but u times the number of rows may round up to that number
        self._rows = Draws(
            place,
            self.BATCH,
            batch,
            lambda uniform: np.minimum((uniform * shard_rows).astype(np.intp), shard_rows - 1),
        )

    @classmethod
    def check_options(
        cls,
        *,
        dataset: str = "synthetic",
        batch: int = 32,
        reg: float = 0.01,
        split: str = "iid",
        split_seed: int = 0,
        data: str | None = None,
        libsvm: str | None = None,
        **sizes: int | None,
    ) -> None:
        """Raise an error for what shows without the data: nothing is downloaded in vain."""
        check_source(dataset, data, libsvm)
        check_sizes(sizes, dataset, data, libsvm)
        require(batch >= 1, f"batch must be at least 1, not {batch}")
        require(0 <= reg < math.inf, f"reg must be >= 0, not {reg}")
        require(0 <= split_seed < 2**63, f"split_seed must be in [0, 2^63), not {split_seed}")
        datasets.parse_split(split)

    def facts(self) -> dict[str, Any]:
        """Return the size of the data for run.json."""
        rows = len(self._x) * self._place.nodes
        return {
            "rows": self._total,
            "rows_per_node": len(self._x),
            "rows_dropped": self._total - rows,  # the remainder of an even split
            "features": self._x.shape[1],
            "classes": self.classes,
            **({} if self._sha256 is None else {"data_sha256": self._sha256}),
        }

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

    def least_value(self) -> None:
        """Return None: the least value is not known."""

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

    def accuracy(self, x: Array) -> Array:
        """Return the fraction of this node's rows that are classified correctly, per seed."""
        at, accuracy = self._evaluated
        return accuracy if at is x else self._sum_over_rows(x)[2] / len(self._x)

    def test_score(self, x: Array) -> Array:
        """Return the correct rows per seed, then the number of rows, of this node's test rows.

        If the test part has been damaged since the start of the run, that number is very negative:
        the run has no test accuracy then, but keeps all other results.
        """
        if self._test is None:
            return np.zeros(len(x) + 1, np.int64)
        try:
            return self._score_test_rows(self._test, x)
        except UserError:
            return np.append(np.zeros(len(x), np.int64), -(2**40))

    def _score_test_rows(self, test: datasets.Source, x: Array) -> Array:
        labels = test.labels()
        bounds = np.linspace(0, len(labels), self._place.nodes + 1).astype(int)
        mine = np.arange(bounds[self._place.node], bounds[self._place.node + 1])
        w = self._stacked(x)
        correct = np.zeros(len(x), np.int64)
        for begin in range(0, len(mine), self._chunk_rows):
            rows = mine[begin : begin + self._chunk_rows]
            z = self._multiply(test.read(rows) * self._scale, w).reshape(len(rows), len(x), -1)
            correct += (z.argmax(axis=2) == labels[rows][:, np.newaxis]).sum(axis=0)
        return np.append(correct, len(mine))

    @property
    def _chunk_rows(self) -> int:
        return max(1, self.CHUNK // self._x.shape[1])

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

    @classmethod
    def prepare(
        cls,
        data_dir: str | None,
        say: Callable[[str], None],
        *,
        dataset: str = "synthetic",
        **options: Any,
    ) -> None:
        """Download and parse the dataset, if it is not yet in the cache."""
        if dataset in datasets.DATASETS and not (options.get("data") or options.get("libsvm")):
            from ..datasets.store import prepare  # the first rank of a host only

            prepare(datasets.DATASETS[dataset], data_dir, say)

    @classmethod
    def least_memory(
        cls,
        nodes: int,
        here: int,
        seeds: int,
        itemsize: int,
        *,
        dataset: str = "synthetic",
        batch: int = 32,
        **options: Any,
    ) -> int:
        """Return the bytes of the nodes' rows, of a batch and of the vectors."""
        known = datasets.DATASETS.get(dataset)
        rows, features, classes = (
            options.get(name) or (getattr(known, name) if known else default)
            for name, default in SYNTHETIC.items()
        )
        labels = rows * (1 if known else 16)  # all of them, while a node's rows are chosen
        own = here * (rows // nodes) * features * (1 if known else 4)
        # indices of each node; of one node also its rows and their products with x
        drawn = seeds * batch * (8 * here + itemsize * (features + classes))
        vectors = itemsize * VECTORS * here * seeds * features * classes
        return sum(max(0, size) for size in (labels, own, drawn, vectors))

    @classmethod
    def data_sha256(cls, *, dataset: str = "synthetic", **options: Any) -> str | None:
        """Return the digest of the dataset's rows in the cache of this host; None without one."""
        if dataset not in datasets.DATASETS:
            return None
        return datasets.Prepared.of(datasets.DATASETS[dataset]).sha256()

    @classmethod
    def parts(
        cls,
        nodes: int,
        *,
        data: str | None = None,
        libsvm: str | None = None,
        features: int | None = None,
        split: str = "iid",
        split_seed: int = 0,
        **options: Any,
    ) -> list[Any] | None:
        """Return one Shard per node of the file `data` or `libsvm`."""
        check_source(options.get("dataset", "synthetic"), data, libsvm)
        if data is None and libsvm is None:
            return None
        if libsvm is not None:
            from ..datasets.raw import read_compressed  # root only

            x, y = datasets.parse_libsvm(read_compressed(Path(libsvm)), libsvm, features)
        else:
            x, y = read_npz(Path(str(data)))
        kinds, labels = np.unique(y, return_inverse=True)
        if len(kinds) < 2:
            raise UserError(f"{data or libsvm}: all rows have the same label {kinds[0]}")
        shards = []
        for node in range(nodes):
            try:
                mine = datasets.rows_of_node(split, labels, node, nodes, split_seed)
            except (ValueError, OverflowError) as error:
                raise UserError(f"{data or libsvm}: {error}") from None
            shards.append(Shard(x[mine], labels[mine], len(kinds), len(x)))
        return shards


def _open_dataset(
    dataset: str, sizes: dict[str, int | None], seed: int
) -> tuple[datasets.Source, datasets.Source | None]:
    """Return the train and the test part (None: there is none) of a dataset by name."""
    if dataset != "synthetic":
        # `prepare` has just verified all rows, on the first rank of this host
        train = datasets.Prepared.of(datasets.DATASETS[dataset], verify=False)
        test = datasets.Prepared.of(datasets.DATASETS[dataset], "test")
        return train, test if test.exists() else None
    chosen = {name: SYNTHETIC[name] if size is None else size for name, size in sizes.items()}
    for name, least in (("rows", 1), ("features", 1), ("classes", 2)):
        require(chosen[name] >= least, f"{name} must be at least {least}, not {chosen[name]}")
    rows, width, kinds = chosen["rows"], chosen["features"], chosen["classes"]
    return (
        datasets.Synthetic(rows, width, kinds, seed),
        datasets.Synthetic(rows // 4, width, kinds, seed, part=1),
    )
