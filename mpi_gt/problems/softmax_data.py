"""The sources of a classification's data: their names, their sizes, and files of the user's."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import datasets
from ..array_files import read_arrays
from ..errors import UserError

Array = NDArray[Any]

SYNTHETIC = {"rows": 4096, "features": 20, "classes": 4}
"""The default size of the synthetic data."""


def check_source(dataset: str, data: str | None, libsvm: str | None) -> None:
    """Raise UserError unless one known source of data is named."""
    if dataset != "synthetic" and dataset not in datasets.DATASETS:
        from ..spec import nearest

        known = [*datasets.DATASETS, "synthetic"]
        raise UserError(f"unknown dataset '{dataset}'{nearest(dataset, known)}")
    if (dataset != "synthetic") + (data is not None) + (libsvm is not None) > 1:
        raise UserError("a problem takes one of dataset, data and libsvm")


def check_sizes(
    sizes: dict[str, int | None], dataset: str, data: str | None, libsvm: str | None
) -> None:
    """Raise ValueError for sizes that would be ignored, because the data has its own."""
    for name, value in sizes.items():
        synthetic = dataset == "synthetic" and data is None and libsvm is None
        if value is not None and not synthetic and not (libsvm and name == "features"):
            raise ValueError(f"{name} cannot be used with {data or libsvm or 'dataset=' + dataset}")


def read_npz(path: Path) -> tuple[Array, Array]:
    """Return the features X and the labels y of an .npz file, checked."""
    arrays = read_arrays(path, ("X", "y"))
    if not {"X", "y"} <= set(arrays):
        raise UserError(f"{path} must hold X (rows, features) and y (rows,)")
    x, y = arrays["X"], arrays["y"]
    if x.ndim != 2 or x.size == 0 or y.shape != x.shape[:1]:
        raise UserError(
            f"{path}: X must be (rows, features) and y (rows,), not {x.shape} and {y.shape}"
        )
    broken = np.flatnonzero(y != np.round(y))
    if len(broken):
        raise UserError(f"{path}: y[{broken[0]}] is {y[broken[0]]}, not a whole number")
    return x, y.astype(np.int64)
