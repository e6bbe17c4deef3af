"""Datasets from which a rank reads its own rows, without ever holding the whole."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .catalog import DATASETS, Dataset
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


BLOCK = 1 << 20  # bytes per read


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
    """One part (train, test) of a prepared dataset, read from its file and never mapped."""

    folder: Path
    part: str
    classes: int
    scale: float

    @classmethod
    def of(cls, dataset: Dataset, part: str = "train") -> "Prepared":
        """Return this part of a dataset in the cache."""
        return cls(prepared_folder(dataset), part, dataset.classes, dataset.scale)

    def exists(self) -> bool:
        """Return whether the dataset has this part."""
        return (self.folder / f"{self.part}-x.npy").exists()

    def labels(self) -> Array:
        labels: Array = np.load(self.folder / f"{self.part}-y.npy")
        return labels

    def read(self, rows: Array) -> Array:
        """Return these rows (ascending), reading one block of the file at a time."""
        with (self.folder / f"{self.part}-x.npy").open("rb") as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            start, width = file.tell(), shape[1] * dtype.itemsize
            result = np.empty((len(rows), shape[1]), dtype)
            per_block = max(1, BLOCK // width)
            done = 0
            while done < len(rows):
                first = int(rows[done])
                end = int(np.searchsorted(rows, first + per_block))
                file.seek(start + first * width)
                count = int(rows[end - 1]) - first + 1
                block = np.frombuffer(file.read(count * width), dtype).reshape(count, shape[1])
                result[done:end] = block[rows[done:end] - first]
                done = end
        return result


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
