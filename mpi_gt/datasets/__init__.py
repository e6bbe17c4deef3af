"""Datasets from which a rank reads its own rows, without ever holding the whole."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from .catalog import DATASETS, Dataset
from .digests import FileDigest, read_blocks, read_digests
from .folders import prepared_folder
from .libsvm import parse_libsvm
from .splits import parse_split, rows_of_node

Array = NDArray[Any]

__all__ = [
    "DATASETS",
    "Dataset",
    "Prepared",
    "Source",
    "Synthetic",
    "parse_libsvm",
    "parse_split",
    "prepared_folder",
    "rows_of_node",
]


class Source(Protocol):
    """A source of rows of features and labels."""

    @property
    def classes(self) -> int:
        """The number of classes."""
        ...

    @property
    def scale(self) -> float:
        """The factor by which to multiply the features that `read` returns."""
        ...

    def labels(self) -> Array:
        """Return the labels of all rows."""
        ...

    def read(self, rows: Array) -> Array:
        """Return the features of these rows (ascending)."""
        ...


@dataclass(frozen=True)
class Prepared:
    """One part (train, test) of a prepared dataset, read from its file and never mapped.

    `verify` compares each block of rows that is read with its digest. A run does not need that for
    the rows of its nodes: `store.prepare` has just read them all, once per host.
    """

    folder: Path
    part: str
    classes: int
    scale: float
    verify: bool = True

    @classmethod
    def of(cls, dataset: Dataset, part: str = "train", verify: bool = True) -> "Prepared":
        """Return this part of a dataset in the cache."""
        return cls(prepared_folder(dataset), part, dataset.classes, dataset.scale, verify)

    def exists(self) -> bool:
        """Return whether the dataset has this part."""
        return (self.folder / f"{self.part}-x.npy").exists()

    def sha256(self) -> str:
        """Return the digest of the dataset, all parts together."""
        return read_digests(self.folder)[0]

    def labels(self) -> Array:
        path, digest = self._file("y")
        blocks = read_blocks(path, digest, range(len(digest.blocks)))
        return np.concatenate([rows for _, rows in blocks])

    def read(self, rows: Array) -> Array:
        """Return these rows (ascending), reading one block of the file at a time."""
        path, digest = self._file("x")
        result = np.empty((len(rows), *digest.shape[1:]), digest.dtype)
        blocks = np.unique(rows // digest.rows)
        for first, block in read_blocks(path, digest, blocks, verify=self.verify):
            begin, end = np.searchsorted(rows, [first, first + len(block)])
            result[begin:end] = block[rows[begin:end] - first]
        return result

    def _file(self, what: str) -> tuple[Path, FileDigest]:
        name = f"{self.part}-{what}.npy"
        _, files = read_digests(self.folder)
        if name not in files:
            raise UserError(f"{self.folder} holds no {name}: prepare the dataset again")
        return self.folder / name, files[name]


@dataclass(frozen=True)
class Synthetic:
    """Gaussian clouds, one per class, of which any rows can be made without the others."""

    rows: int
    features: int
    classes: int
    seed: int
    part: int = 0  # another number: other rows of the same clouds
    scale: float = 1.0

    ROWS = 1024  # made together, with one generator

    def labels(self) -> Array:
        return np.arange(self.rows) % self.classes

    def read(self, rows: Array) -> Array:
        centres = self._random(0xFFFFFFFF).standard_normal((self.classes, self.features))
        result = np.empty((len(rows), self.features), np.float32)
        for block in np.unique(rows // self.ROWS):
            begin, end = np.searchsorted(rows, [block * self.ROWS, (block + 1) * self.ROWS])
            noise = self._random(int(block)).standard_normal((self.ROWS, self.features))
            wanted = rows[begin:end]
            result[begin:end] = centres[wanted % self.classes] + noise[wanted % self.ROWS]
        return result

    def _random(self, block: int) -> np.random.Generator:
        part = 0 if block == 0xFFFFFFFF else self.part
        purpose = 0xDA7A + part  # far from the small numbers that problems use
        return np.random.Generator(np.random.Philox(key=[self.seed, purpose << 32 | block]))
