"""The interface of a compressor: the size of a payload, encode and decode."""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import kernels

Array = NDArray[Any]
Codec = tuple[int, int, int, int, float]

NONE, BFLOAT16, FLOAT16, FLOAT32, QSGD, SIGN, TOP = range(7)  # as in kernels/compress/compress.h


class Compressor(ABC):
    """A map C of vectors to short payloads and back, for each seed's vector alone.

    Encoding and decoding are functions of their arguments alone, so that neighbours who decode
    the same payload get the same numbers, in every run.
    """

    random: ClassVar[bool] = False
    """True if `encode` needs uniform numbers: one in [0, 1) per entry."""
    unbiased: bool = False
    """True if C(z) is z on the average, or z rounded: what lead needs."""

    @abstractmethod
    def size(self, seeds: int, dim: int, dtype: np.dtype[Any]) -> int:
        """Return the bytes of the payload of a vector (seeds, dim), whatever its entries are."""

    @abstractmethod
    def encode(self, z: Array, uniform: Array | None) -> Array:
        """Return the payload of z (seeds, dim) as an array of uint8, `size` long.

        `uniform` holds numbers in [0, 1) of the shape of z if `random` is True, else it is None.
        """

    @abstractmethod
    def decode(self, payload: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        """Return C(z) of this shape and dtype from the payload of z."""

    def delta(self, dim: int) -> float:
        """Return the delta of E ||C(z) - z||² <= (1 - delta) ||z||²: the default of gamma."""
        raise NotImplementedError

    def check(self, dim: int) -> None:
        """Raise ValueError if it cannot compress vectors of `dim` entries."""
        return


class Compiled(Compressor):
    """A compressor of the package: compiled, with its Python twins `_encode` and `_decode`."""

    kind: ClassVar[int]
    _last: tuple[int, Codec] | None = None  # a vector's dimension and its codec: they seldom change

    def codec(self, dim: int) -> Codec:
        """Return what the kernels need: kind, bits, block, entries kept, divisor."""
        return (self.kind, 0, 0, 0, 1.0)

    @abstractmethod
    def _encode(self, z: Array, uniform: Array | None) -> Array: ...

    @abstractmethod
    def _decode(self, payload: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array: ...

    def encode(self, z: Array, uniform: Array | None) -> Array:
        payload = np.empty(self.size(len(z), z.shape[1], z.dtype), np.uint8)
        self.encode_into(np.ascontiguousarray(z), payload, uniform)
        return payload

    def decode(self, payload: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        out = np.empty((1, *shape), dtype)
        self.decode_into(payload.reshape(1, -1), out)
        return out[0]

    def _codec(self, dim: int) -> Codec:
        if self._last is None or self._last[0] != dim:
            self._last = dim, self.codec(dim)
        return self._last[1]

    def encode_into(self, z: Array, payload: Array, uniform: Array | None) -> None:
        """Write the payload of z."""
        if kernels.C is not None:
            kernels.C.encode(self._codec(z.shape[1]), z, payload, uniform)
        else:
            payload[:] = self._encode(z, uniform)

    def decode_into(self, payloads: Array, out: Array) -> None:
        """Write the vectors out (rows, seeds, dim) of payloads (rows, size)."""
        if kernels.C is not None:
            kernels.C.decode(self._codec(out.shape[2]), payloads, out)
            return
        for payload, vector in zip(payloads, out, strict=True):
            vector[:] = self._decode(np.ascontiguousarray(payload), vector.shape, vector.dtype)


def as_bytes(*arrays: Array) -> Array:
    """Return the bytes of the arrays, one after the other."""
    return np.concatenate(
        [np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in arrays]
    )


def ratio(compressor: Compressor, dim: int, dtype: np.dtype[Any]) -> float:
    """Return how many times shorter a payload is than the vector."""
    return dim * dtype.itemsize / compressor.size(1, dim, dtype)


def require(condition: bool, message: str) -> None:
    """Raise ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


def require_share(k: float) -> None:
    """Raise ValueError unless k is a share of the entries in (0, 1), or a number of them."""
    fits = math.isfinite(k) and (0 < k < 1 or (k >= 1 and float(k).is_integer()))
    require(fits, f"k must be a share in (0, 1) or a whole number of entries, not {k:g}")
