"""Compressors that users write: watched while they run, and tried out before."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import UserCodeError, UserError
from ..user_classes import call_user_code
from ..user_classes.failures import blame
from .base import Array, Compressor

LARGEST = 2**40  # bytes of any payload


class OwnCompressor(Compressor):
    """A user's class with `size`, `encode` and `decode`; `delta`, `random`, `unbiased` if it likes.

    What its methods return is checked at each call; their arguments are read-only.
    """

    def __init__(self, name: str, inner: Any) -> None:
        self.name = name
        self._inner = inner
        self.random = bool(getattr(inner, "random", False))  # type: ignore[misc]
        self.unbiased = bool(getattr(inner, "unbiased", False))

    def size(self, seeds: int, dim: int, dtype: np.dtype[Any]) -> int:
        made = self._call("size", seeds, dim, dtype)
        whole = isinstance(made, int | np.integer) and not isinstance(made, bool)
        if not whole or not 1 <= made <= LARGEST:
            self._complain(f"{self.name}.size must return a whole number >= 1, not {made!r}")
        return int(made)

    def encode(self, z: Array, uniform: Array | None) -> Array:
        made = self._call("encode", _frozen(z), uniform)
        return self._checked("encode", made, (self.size(len(z), z.shape[1], z.dtype),), np.uint8)

    def decode(self, payload: Array, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        made = self._call("decode", _frozen(payload), shape, dtype)
        return self._checked("decode", made, shape, dtype)

    def delta(self, dim: int) -> float:
        if not hasattr(self._inner, "delta"):
            raise ValueError(f"{self.name} has no method delta(dim): give gamma")
        made = self._call("delta", dim)
        if isinstance(made, bool) or not isinstance(made, int | float) or not 0 < made <= 1:
            raise ValueError(f"{self.name}.delta must return a number in (0, 1], not {made!r}")
        return float(made)

    def check(self, dim: int) -> None:
        if hasattr(self._inner, "check"):
            self._inner.check(dim)

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self._inner, method)(*arguments)
        except BaseException as error:
            raise blame(error, f"{self.name}.{method}")  # noqa: B904 (the same error)

    def _checked(self, method: str, made: Any, shape: tuple[int, ...], dtype: Any) -> Array:
        if not isinstance(made, np.ndarray):
            kind = type(made).__name__
            self._complain(f"{self.name}.{method} must return an array, not a {kind}")
        if made.shape != shape or made.dtype != dtype:
            self._complain(
                f"{self.name}.{method} must return an array of shape {shape} and dtype "
                f"{np.dtype(dtype)}, not {made.shape} and {made.dtype}"
            )
        array: Array = made
        return array

    def _complain(self, text: str) -> None:
        raise blame(UserCodeError(text), "")


def own_compressors(compressors: Iterable[Any]) -> list[type]:
    """Return the classes of those that are the user's, each once."""
    own = (type(each._inner) for each in compressors if isinstance(each, OwnCompressor))
    return list(dict.fromkeys(own))


def _frozen(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def try_compressor(compressor: OwnCompressor, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """Raise UserError unless encode and decode work on vectors like those of the run.

    Neighbours decode the same payload, and a run may be repeated: the same arguments must give the
    same numbers.
    """
    generator = np.random.Generator(np.random.Philox(key=0))
    uniform = generator.random(shape) if compressor.random else None
    for z in (generator.standard_normal(shape).astype(dtype), np.zeros(shape, dtype)):
        encoded = [_tried(compressor, "encode", z, uniform) for _ in range(2)]
        decoded = [_tried(compressor, "decode", encoded[0], shape, dtype) for _ in range(2)]
        for method, (one, other) in (("encode", encoded), ("decode", decoded)):
            if one.tobytes() != other.tobytes():
                raise UserError(
                    f"{compressor.name}.{method} gives other numbers when it is called again: all "
                    "nodes must decode alike (random numbers are those of `uniform`)"
                )
        if not np.isfinite(decoded[0]).all():
            raise UserError(f"{compressor.name}.decode makes numbers that are not finite")


def _tried(compressor: OwnCompressor, method: str, *arguments: Any) -> Array:
    def call() -> Array:
        try:
            made: Array = getattr(compressor, method)(*arguments)
        except UserCodeError as error:  # what it returned, not what it raised
            raise UserError(str(error)) from None
        return np.array(made)

    return call_user_code(f"{compressor.name}.{method}", call)
