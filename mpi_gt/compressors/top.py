"""The largest entries."""

import math
from typing import Any

import numpy as np

from .base import TOP, Array, Codec, Compiled, as_bytes, require, require_share


class Top(Compiled):
    """The k entries with the largest |z|, with their indices; ties go to the lower index.

    Options:
        k > 0: the share of the entries (rounded up), or from 1 on their number
    """

    kind = TOP

    def __init__(self, k: float = 0.1) -> None:
        require_share(k)
        self.k = k

    def kept(self, dim: int) -> int:
        """Return the number of entries that are sent of `dim`."""
        return math.ceil(self.k * dim) if self.k < 1 else int(self.k)

    def check(self, dim: int) -> None:
        kept = self.kept(dim)
        require(kept <= dim, f"k must be at most all {dim} entries, not {kept}")
        require(dim < 2**31, "top takes vectors of less than 2^31 entries")

    def delta(self, dim: int) -> float:
        return self.kept(dim) / dim

    def size(self, seeds: int, dim: int, dtype: np.dtype[Any]) -> int:
        return seeds * self.kept(dim) * (4 + dtype.itemsize)

    def codec(self, dim: int) -> Codec:
        return (self.kind, 0, 0, self.kept(dim), 1.0)

    def _encode(self, z: Array, uniform: Array | None) -> Array:
        kept = self.kept(z.shape[1])
        indices = np.stack([_largest(row, kept) for row in z])
        return as_bytes(indices.astype(np.int32), np.take_along_axis(z, indices, axis=1))

    def _decode(self, payload: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        seeds, dim = shape
        count = seeds * self.kept(dim)
        indices = payload[: 4 * count].view(np.int32).reshape(seeds, -1)
        values = payload[4 * count :].copy().view(dtype).reshape(seeds, -1)
        if (indices < 0).any() or (indices >= dim).any():
            raise ValueError(f"a payload has an index outside of {dim} entries")
        made = np.zeros(shape, dtype)
        np.put_along_axis(made, indices.astype(np.intp), values, axis=1)
        return made


def _largest(z: Array, kept: int) -> Array:
    """Return the indices of the largest |z|, ascending.

    The bits of |z| are ordered like |z|, with NaN on top. `argpartition` would choose among equal
    entries differently from version to version of numpy.
    """
    keys = np.abs(z.astype(np.float64)).view(np.uint64)
    least = np.partition(keys, len(z) - kept)[len(z) - kept]
    above = keys > least
    ties = np.flatnonzero(keys == least)[: kept - np.count_nonzero(above)]
    above[ties] = True
    return np.flatnonzero(above)
