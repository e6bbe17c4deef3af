"""Arrays from users' .npy, .npz and .csv files, checked to be real and finite."""

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import UserError
from .files import require_regular
from .memory import require_memory

Array = NDArray[Any]


def read_array(path: Path) -> Array:
    """Return the array of a .npy file as float64."""
    array = _load(path, ".npy")
    if not isinstance(array, np.ndarray):
        array.close()
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
            if name not in file.files:
                continue
            try:
                # a small archive may unfold to more than the memory holds
                sizes = [m.file_size for m in file.zip.infolist() if m.filename == f"{name}.npy"]
                require_memory(f"'{name}' in {path}", max(sizes, default=0))
                arrays[name] = _checked(f"{path}: {name}", file[name])
            except UserError:
                raise
            except Exception as error:  # as in `_load`
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
    require_regular(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about an empty file: the caller checks the shape
            table = np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")
    except (OSError, ValueError, MemoryError) as error:
        raise UserError(f"cannot read {path} as a table of numbers: {error}") from None
    return _checked(f"{path}", table)


def _load(path: Path, suffix: str) -> Any:
    require_memory(f"{path}", require_regular(path))
    try:
        return np.load(path, allow_pickle=False)
    # numpy and zipfile parse the headers of a damaged file with whatever error that brings
    except Exception as error:
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
