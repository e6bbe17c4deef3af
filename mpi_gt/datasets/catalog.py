"""The known datasets: origin and sha256 of their files, and parsers for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .libsvm import parse_libsvm

Array = NDArray[Any]
Parts = dict[str, tuple[Array, Array]]
"""`train` and perhaps `test`: features (rows, d) and labels (rows,) from 0."""


@dataclass(frozen=True)
class RawFile:
    """A file as it is published, compressed or not."""

    name: str  # without .gz or .bz2
    sha256: str  # of the decompressed content
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Dataset:
    """A dataset: its size, its files and the parser for them."""

    name: str
    about: str
    rows: int
    features: int
    classes: int
    files: tuple[RawFile, ...]
    parse: Callable[[Mapping[str, bytes]], Parts]
    scale: float = 1.0  # factor of the stored features


def parse_a9a(raw: Mapping[str, bytes]) -> Parts:
    """Parse a9a: binary features, labels 0 and 1."""
    parts = {}
    for part, name in (("train", "a9a"), ("test", "a9a.t")):
        x, y = parse_libsvm(raw[name], name, features=123)
        parts[part] = (x.astype(np.uint8), (y > 0).astype(np.uint8))
    return parts


def parse_covertype(raw: Mapping[str, bytes]) -> Parts:
    """Parse Covertype: 10 quantitative columns, standardised over all rows, and 44 indicators."""
    numbers = np.fromstring(raw["covtype.data"].replace(b"\n", b","), dtype=np.float32, sep=",")
    table = numbers.reshape(-1, 55)
    quantitative = table[:, :10].astype(np.float64)
    quantitative -= quantitative.mean(axis=0)
    quantitative /= quantitative.std(axis=0)
    table[:, :10] = quantitative
    return {"train": (np.ascontiguousarray(table[:, :54]), (table[:, 54] - 1).astype(np.uint8))}


def parse_mnist(raw: Mapping[str, bytes]) -> Parts:
    """Parse MNIST: one row of 784 pixels per image."""
    parts = {}
    for part, stem in (("train", "train"), ("test", "t10k")):
        images = np.frombuffer(raw[f"{stem}-images-idx3-ubyte"], np.uint8, offset=16)
        labels = np.frombuffer(raw[f"{stem}-labels-idx1-ubyte"], np.uint8, offset=8)
        parts[part] = (images.reshape(-1, 784), labels)
    return parts


_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/"
_MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


def _mnist(name: str, sha256: str) -> RawFile:
    return RawFile(name, sha256, tuple(f"{home}{name}.gz" for home in _MNIST))


DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            "a9a",
            "census income, 123 binary features (LIBSVM's version of UCI Adult; CC BY 4.0)",
            32561,
            123,
            2,
            (
                RawFile(
                    "a9a",
                    "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
                    (f"{_LIBSVM}a9a",),
                ),
                RawFile(
                    "a9a.t",
                    "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
                    (f"{_LIBSVM}a9a.t",),
                ),
            ),
            parse_a9a,
        ),
        Dataset(
            "covertype",
            "forest cover types, 54 cartographic features (UCI; CC BY 4.0)",
            581012,
            54,
            7,
            (
                RawFile(
                    "covtype.data",
                    "0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
                    (f"{_UCI}covtype.data.gz",),
                ),
            ),
            parse_covertype,
        ),
        Dataset(
            "mnist",
            "handwritten digits, 28 x 28 pixels (LeCun, Cortes, Burges; CC BY-SA 3.0)",
            60000,
            784,
            10,
            (
                _mnist(
                    "train-images-idx3-ubyte",
                    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                ),
                _mnist(
                    "train-labels-idx1-ubyte",
                    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                ),
                _mnist(
                    "t10k-images-idx3-ubyte",
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                ),
                _mnist(
                    "t10k-labels-idx1-ubyte",
                    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                ),
            ),
            parse_mnist,
            scale=1 / 255,
        ),
    )
}
