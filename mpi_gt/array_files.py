"""Arrays from users' .npy, .npz and .csv files, checked to be real and finite."""

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import UserError

Array = NDArray[Any]


def read_array(path: Path) -> Array:
    """Return the array of a .npy file as float64."""
    array = _load(path, ".npy")
    if not isinstance(array, np.ndarray):
        raise UserError(f"cannot read {path} as a .npy file: it is an .npz file")
    return _checked(f"{path}", array)


def read_arrays(path: Path, names: Collection[str]) -> dict[str, Array]:
    """Return those of the named arrays that an .npz file holds, as float64."""
    file = _load(path, ".npz")
    if isinstance(file, np.ndarray):
        raise UserError(f"cannot read {path} as an .npz file: it is a .npy file")
    with file:
        arrays = {}
        for name in names:
            try:
                if name in file.files:
                    arrays[name] = _checked(f"{path}: {name}", file[name])
            except _read_errors() as error:
                raise UserError(f"cannot read '{name}' in {path}: {error}") from None
    return arrays


def cast(name: str, array: Array, dtype: Any) -> Array:
    """Return the array in that dtype; raise UserError if a value is too large for it."""
    with np.errstate(over="ignore", invalid="ignore"):
        smaller = array.astype(dtype)
    if not np.isfinite(smaller).all():
        raise UserError(f"{name} holds values that are too large for {np.dtype(dtype)}")
    return smaller


def read_table(path: Path) -> Array:
    """Return the numbers of a .csv file, one row per line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about an empty file: the caller checks the shape
            table = np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path} as a table of numbers: {error}") from None
    return _checked(f"{path}", table)


def _read_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that numpy raises for damaged files."""
    import zipfile  # not at the top: all ranks would import its compressors
    import zlib

    return OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error


def _load(path: Path, suffix: str) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except _read_errors() as error:
        # for a file of another format numpy advises loading pickles, which would be unsafe
        reason = "it has another format" if "pickle" in str(error) else error
        raise UserError(f"cannot read {path} as a {suffix} file: {reason}") from None


def _checked(name: str, array: Array) -> Array:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iuf":
        raise UserError(
            f"{name} must hold real numbers, not {getattr(array, 'dtype', 'something else')}"
        )
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise UserError(f"{name}{bad[0].tolist()} is {array[tuple(bad[0])]}: not finite")
    return cast(name, array, np.float64)
