"""Entries rounded at random to a few levels."""

import math
from typing import Any

import numpy as np

from .base import QSGD, Array, Codec, Compiled, as_bytes, require


class Qsgd(Compiled):
    """Quantised entries: per block, the largest |z| in float32 and a few bits per entry.

        M = max |z| rounded up;  level = min(floor(s |z| / M + U), s),  s = 2^(bits-1) - 1
        C(z) = M/s sign(z) level / (1 + omega)

    U is uniform, so that M/s sign(z) level is z on the average; omega is its largest relative
    variance. The division by 1 + omega makes the error small and C(z) too short on the average;
    lead does without.

    Options:
        bits: 2, 4 or 8 per entry
        block >= 1: entries that share a scale M
    """

    kind = QSGD
    random = True

    def __init__(self, bits: int = 4, block: int = 64) -> None:
        require(bits in (2, 4, 8), f"bits must be 2, 4 or 8, not {bits}")
        require(1 <= block < 2**31, f"block must be in [1, 2^31), not {block}")
        self.bits = bits
        self.block = block
        self.levels = 2 ** (bits - 1) - 1
        self.unbiased = False

    def without_factor(self) -> "Qsgd":
        """Return the same compressor without the division by 1 + omega."""
        other = Qsgd(self.bits, self.block)
        other.unbiased = True
        return other

    def omega(self, dim: int) -> float:
        """Return the largest E ||Q(z) - z||² / ||z||², Q(z) being C(z) without the division."""
        return (math.sqrt(1 + (min(self.block, dim) - 1) / self.levels**2) - 1) / 2

    def delta(self, dim: int) -> float:
        return 1 / (1 + self.omega(dim))

    def size(self, seeds: int, dim: int, dtype: np.dtype[Any]) -> int:
        return seeds * (4 * -(-dim // self.block) + -(-dim * self.bits // 8))

    def codec(self, dim: int) -> Codec:
        return (self.kind, self.bits, self.block, 0, self._factor(dim))

    def _factor(self, dim: int) -> float:
        return 1.0 if self.unbiased else 1 + self.omega(dim)

    def _encode(self, z: Array, uniform: Array | None) -> Array:
        assert uniform is not None
        dim, s = z.shape[1], self.levels
        wide = z.astype(np.float64)
        starts = np.arange(0, dim, self.block)
        largest = np.maximum.reduceat(np.abs(wide), starts, axis=1)
        m = largest.astype(np.float32)
        m = np.where(m < largest, np.nextafter(m, np.float32(np.inf)), m)
        per_entry = np.repeat(m.astype(np.float64), np.diff([*starts, dim]), axis=1)
        with np.errstate(all="ignore"):
            level = np.floor(s * np.abs(wide) / per_entry + uniform)
        usable = np.isfinite(per_entry) & (per_entry > 0)
        level = np.minimum(np.where(usable, level, 0), s)
        codes = (np.where(wide < 0, -level, level) + s).astype(np.uint8)
        return as_bytes(m, self._packed(codes))

    def _packed(self, codes: Array) -> Array:
        per = 8 // self.bits
        padded = np.pad(codes, ((0, 0), (0, -codes.shape[1] % per)))
        packed = np.zeros((len(codes), padded.shape[1] // per), np.uint8)
        for place in range(per):
            packed |= padded[:, place::per] << (8 - self.bits * (place + 1))
        return packed

    def _decode(self, payload: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        (seeds, dim), s, per = shape, self.levels, 8 // self.bits
        blocks = -(-dim // self.block)
        m = payload[: 4 * seeds * blocks].view(np.float32).astype(np.float64)
        packed = payload[4 * seeds * blocks :].reshape(seeds, -1)
        codes = np.empty((seeds, packed.shape[1] * per), np.uint8)
        for place in range(per):
            shift = 8 - self.bits * (place + 1)
            codes[:, place::per] = packed >> shift & (2**self.bits - 1)
        unit = np.repeat(m.reshape(seeds, blocks) / s / self._factor(dim), self.block, axis=1)
        with np.errstate(all="ignore"):
            made: Array = unit[:, :dim] * (codes[:, :dim].astype(np.float64) - s)
            return made.astype(dtype)
