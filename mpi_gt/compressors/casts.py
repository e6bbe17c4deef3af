"""Entries as they are, or rounded to a shorter number."""

from typing import Any

import numpy as np

from .base import BFLOAT16, FLOAT16, FLOAT32, NONE, Array, Compiled, as_bytes


class Cast(Compiled):
    """Every entry rounded to nearest even."""

    unbiased = True
    width = 2  # bytes per entry

    def size(self, seeds: int, dim: int, dtype: np.dtype[Any]) -> int:
        return seeds * dim * self.width

    def delta(self, dim: int) -> float:
        return 1.0


class Unchanged(Cast):
    """The vector itself: no compression, with the exchange of a compressed method."""

    kind = NONE

    def size(self, seeds: int, dim: int, dtype: np.dtype[Any]) -> int:
        return seeds * dim * dtype.itemsize

    def _encode(self, z: Array, uniform: Array | None) -> Array:
        return as_bytes(z)

    def _decode(self, payload: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        return payload.view(dtype).reshape(shape)


class Bfloat16(Cast):
    """bfloat16: the upper half of a float32, with its range and 8 significant bits."""

    kind = BFLOAT16

    def _encode(self, z: Array, uniform: Array | None) -> Array:
        b = z.astype(np.float32).view(np.uint32)
        rounded = (b + np.uint32(0x7FFF) + (b >> 16 & 1)) >> 16
        is_nan = (b & 0x7FFFFFFF) > 0x7F800000
        return as_bytes(np.where(is_nan, b >> 16 | 0x40, rounded).astype(np.uint16))

    def _decode(self, payload: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        b = payload.view(np.uint16).astype(np.uint32) << 16
        return b.view(np.float32).astype(dtype).reshape(shape)


class Float16(Cast):
    """float16, with 11 significant bits; numbers below 6e-8 vanish, those above 65504 overflow."""

    kind = FLOAT16

    def _encode(self, z: Array, uniform: Array | None) -> Array:
        return as_bytes(z.astype(np.float16))

    def _decode(self, payload: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        return payload.view(np.float16).astype(dtype).reshape(shape)


class Float32(Cast):
    """float32, with 24 significant bits."""

    kind = FLOAT32
    width = 4

    def _encode(self, z: Array, uniform: Array | None) -> Array:
        return as_bytes(z.astype(np.float32))

    def _decode(self, payload: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        return payload.view(np.float32).astype(dtype).reshape(shape)
