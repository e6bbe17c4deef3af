"""Classification of rows with labels: what such problems share, whatever their model is."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import datasets
from ..array_files import cast
from ..errors import UserError
from ..memory import VECTORS
from .base import Array, Draws, Place, Problem, require
from .softmax_data import SYNTHETIC, check_sizes, check_source, read_npz


class Shard(NamedTuple):
    """One node's rows of a user's own data."""

    features: Array
    labels: Array
    classes: int
    total: int  # number of rows in the whole file


class Classification(Problem):
    """A problem on one node's rows of a dataset or of a file, with drawn batches and test rows.

    A subclass declares the options of `_load` among its own, calls it first, and sets `dim`. It
    has `_score` for the test rows and `_widths` for the check of the memory.
    """

    BATCH = 1  # purpose of the random numbers
    CHUNK = 1 << 18  # numbers that `evaluate` has at once
    KEEPS_BATCH = False  # whether each node keeps the arrays of a batch for the next iteration

    classes: int
    batch: int
    _x: Array  # this node's rows as they are stored; `_scale` times them are the features
    _labels: Array
    _scale: float
    _test: datasets.Source | None = None

    def _load(
        self,
        place: Place,
        *,
        dataset: str,
        batch: int,
        split: str,
        split_seed: int,
        data: str | None,
        libsvm: str | None,
        **sizes: int | None,
    ) -> None:
        """Read this node's rows, and make ready to draw from them."""
        self.batch = batch
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
        self._evaluated: tuple[Any, Array] = (None, np.empty(0))  # x and the accuracy at it
        self.rows = rows = len(self._x)
        # u < 1, but u times the number of rows may round up to that number
        self._rows = Draws(
            place,
            self.BATCH,
            batch,
            lambda uniform: np.minimum((uniform * rows).astype(np.intp), rows - 1),
        )

    @classmethod
    def check_options(
        cls,
        *,
        dataset: str = "synthetic",
        batch: int = 32,
        split: str = "iid",
        split_seed: int = 0,
        data: str | None = None,
        libsvm: str | None = None,
        **sizes: Any,
    ) -> None:
        """Raise an error for what shows without the data: nothing is downloaded in vain."""
        check_source(dataset, data, libsvm)
        check_sizes(sizes, dataset, data, libsvm)
        require(batch >= 1, f"batch must be at least 1, not {batch}")
        require(0 <= split_seed < 2**63, f"split_seed must be in [0, 2^63), not {split_seed}")
        datasets.parse_split(split)

    @classmethod
    @abstractmethod
    def _widths(cls, features: int, classes: int, **options: Any) -> tuple[int, int]:
        """Return the length of x, and how many numbers a row of a batch becomes in the model."""

    @abstractmethod
    def _score(self, rows: Array, labels: Array, x: Array) -> Array:
        """Return how many of these rows, as they are stored, x classifies correctly, per seed."""

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

    def least_value(self) -> None:
        """Return None: the least value is not known."""

    def accuracy(self, x: Array) -> Array:
        """Return the fraction of this node's rows that are classified correctly, per seed."""
        if self._evaluated[0] is not x:
            self.evaluate(x)
        return self._evaluated[1]

    def test_score(self, x: Array) -> Array:
        """Return the correct rows per seed, then the number of rows, of this node's test rows.

        If the test part has been damaged since the start of the run, that number is very negative:
        the run has no test accuracy then, but keeps all other results.
        """
        score = np.zeros(len(x) + 1, np.int64)
        try:
            for rows, labels in self._test_chunks():
                score[:-1] += self._score(rows, labels, x)
                score[-1] += len(rows)
        except UserError:
            return np.append(np.zeros(len(x), np.int64), -(2**40))
        return score

    def _test_chunks(self) -> Iterator[tuple[Array, Array]]:
        """Yield this node's test rows and their labels in chunks; nothing without a test part."""
        if self._test is None:
            return
        labels = self._test.labels()
        bounds = np.linspace(0, len(labels), self._place.nodes + 1).astype(int)
        mine = np.arange(bounds[self._place.node], bounds[self._place.node + 1])
        for begin in range(0, len(mine), self._chunk_rows):
            rows = mine[begin : begin + self._chunk_rows]
            yield self._test.read(rows), labels[rows]

    @property
    def _chunk_rows(self) -> int:
        return max(1, self.CHUNK // self._x.shape[1])

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
            options.pop(name, None) or (getattr(known, name) if known else default)
            for name, default in SYNTHETIC.items()
        )
        dim, products = cls._widths(features, classes, **options)
        labels = rows * (1 if known else 16)  # all of them, while a node's rows are chosen
        own = here * (rows // nodes) * features * (1 if known else 4)
        # indices of each node; of one node at least also its rows and their products with x
        batches = here if cls.KEEPS_BATCH else 1
        drawn = seeds * batch * (8 * here + itemsize * (features + products) * batches)
        vectors = itemsize * VECTORS * here * seeds * dim
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
