"""Numbers from users' files, checked: real, finite, and what the suffix promises."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import UserError

Array = NDArray[Any]


def read_array(path: Path) -> Array:
    """The array of a .npy file, as float64."""
    array = _load(path, ".npy")
    if not isinstance(array, np.ndarray):
        raise UserError(f"cannot read {path} as a .npy file: it is an .npz file")
    return _checked(f"{path}", array)


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file by name, as float64."""
    file = _load(path, ".npz")
    if isinstance(file, np.ndarray):
        raise UserError(f"cannot read {path} as an .npz file: it is a .npy file")
    with file:
        arrays = {}
        for name in file.files:
            try:
                arrays[name] = _checked(f"{path}: {name}", file[name])
            except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
                raise UserError(f"cannot read '{name}' in {path}: {error}") from None
    return arrays


def read_table(path: Path) -> Array:
    """The numbers of a .csv file, one row a line."""
    try:
        table = np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path} as a table of numbers: {error}") from None
    return _checked(f"{path}", table)


def _load(path: Path, suffix: str) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"cannot read {path} as a {suffix} file: {error}") from None


def _checked(name: str, array: Array) -> Array:
    if array.dtype.kind not in "iuf":
        raise UserError(f"{name} must hold real numbers, not {array.dtype}")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise UserError(f"{name}{bad[0].tolist()} is {array[tuple(bad[0])]}: not finite")
    return array.astype(np.float64)
