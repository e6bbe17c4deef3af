"""The signs of the entries, with one scale."""

from typing import Any

import numpy as np

from .base import SIGN, Array, Compiled, as_bytes

LANES = 16  # partial sums; as in kernels/compress/sign.c


class Sign(Compiled):
    """One bit per entry: C(z) = (mean |z|) sign(z), with sign(0) = 1."""

    kind = SIGN

    def size(self, seeds: int, dim: int, dtype: np.dtype[Any]) -> int:
        return seeds * (dtype.itemsize + -(-dim // 8))

    def delta(self, dim: int) -> float:
        return 0.3  # it depends on z: 2/pi for Gaussian entries, 1/dim for a single one

    def _encode(self, z: Array, uniform: Array | None) -> Array:
        scales = np.array([mean_size(row) for row in z]).astype(z.dtype)
        return as_bytes(scales, np.packbits(z >= 0, axis=1))

    def _decode(self, payload: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        end = shape[0] * dtype.itemsize
        scales = payload[:end].view(dtype)[:, np.newaxis]
        bits = np.unpackbits(payload[end:].reshape(shape[0], -1), axis=1, count=shape[1])
        return np.where(bits, scales, -scales)


def mean_size(z: Array) -> np.float64:
    """Return the mean of |z|, added up in the order of the kernels: lane by lane, then folded."""
    sizes = np.abs(z.astype(np.float64))
    rows = np.pad(sizes, (0, -len(z) % LANES)).reshape(-1, LANES)
    lanes: Array = np.add.accumulate(rows, axis=0)[-1]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    mean: np.float64 = lanes[0] / len(z)
    return mean
