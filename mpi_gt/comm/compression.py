"""Compressed exchanges: one node's encoder, and the function `mix.compressed`.

What a node adds up, its own vector included, is always decoded from payloads, by the same code on
all nodes: so they agree to the last bit on what each of them has sent.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compressors import Compiled, Compressor
from ..problems.base import Draws, Place

Array = NDArray[Any]

STAGES = ("encode", "wire", "decode")
"""The stages of a compressed exchange; `wire` is the exchange of the payloads itself."""
FIRST_PURPOSE = 100
"""The purpose of the random numbers of the first vector; the next vector has the next one."""


class Encoder:
    """A node's compressor with the random numbers that it needs: by seed, node and iteration."""

    def __init__(self, compressor: Compressor, place: Place) -> None:
        self._compressor = compressor
        self._place = place
        self._draws: dict[tuple[int, int], Draws] = {}

    def size(self, z: Array) -> int:
        """Return the bytes of the payload of vectors like z."""
        if z.ndim != 2:
            raise ValueError(f"mix.compressed takes vectors (seeds, k), not of shape {z.shape}")
        return self._compressor.size(z.shape[0], z.shape[1], z.dtype)

    def encode(self, t: int, index: int, z: Array, payload: Array) -> None:
        """Write the payload of z, which is vector `index` of the exchange at iteration t."""
        compressor = self._compressor
        uniform = self._uniform(t, index, z.shape[1]) if compressor.random else None
        if isinstance(compressor, Compiled):
            compressor.encode_into(z, payload, uniform)
        else:
            payload[:] = compressor.encode(z, uniform)

    def decode(self, payloads: Array, out: Array) -> None:
        """Write the vectors (rows, seeds, k) of payloads (rows, size)."""
        compressor = self._compressor
        if isinstance(compressor, Compiled):
            compressor.decode_into(payloads, out)
            return
        for payload, vector in zip(payloads, out, strict=True):
            vector[:] = compressor.decode(np.array(payload), vector.shape, vector.dtype)

    def received(self, t: int, index: int, z: Array) -> Array:
        """Return what neighbours decode of z."""
        payload = np.zeros(self.size(z), np.uint8)
        self.encode(t, index, np.ascontiguousarray(z), payload)
        made = np.empty((1, *z.shape), z.dtype)
        self.decode(payload[np.newaxis], made)
        own: Array = made[0]
        return own

    def _uniform(self, t: int, index: int, width: int) -> Array:
        drawn = self._draws.get((index, width))
        if drawn is None:
            drawn = self._draws[index, width] = Draws(self._place, FIRST_PURPOSE + index, width)
        return drawn.at(t)


Pairs = tuple[tuple[Array, Any], ...]
"""For each vector, what neighbours decode of it, and the pending sum of A_ij times that."""


class CompressedMix:
    """The function `mix.compressed(z, ...)` of a node.

    `make(layer, vectors)` returns a plan with a transfer when vectors of these shapes come first on
    the layer of this iteration, which `layer()` returns.
    """

    def __init__(
        self, layer: Callable[[], int], make: Callable[[int, Sequence[Array]], Any]
    ) -> None:
        self._layer = layer
        self._make = make
        self._plans: dict[tuple[int, tuple[tuple[int, ...], ...]], Any] = {}
        self._last: Any = None

    def __call__(self, *vectors: Array) -> Pairs:
        if self._last is not None and self._last.pending:
            raise RuntimeError("a result of the last mix was never waited for")
        key = self._layer(), tuple(vector.shape for vector in vectors)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._make(key[0], vectors)
        self._last = transfer = plan.transfer
        results = transfer(*vectors)
        # copies: the next exchange overwrites the buffers, and the caller may keep its vector
        return tuple((own.copy(), result) for own, result in zip(plan.own, results, strict=True))


def without_compressor(*vectors: Array) -> Pairs:
    """Refuse to compress: the `mix.compressed` of a method that names no compressor."""
    raise TypeError("mix.compressed needs a method with an attribute `compressor`")
