"""Compressors of messages, by their command-line names: mathematics, no MPI."""

from collections.abc import Mapping
from typing import Any

from ..spec import Registry, options_of
from ..user_classes import construct, is_custom, resolve
from .base import Compiled, Compressor
from .own import OwnCompressor, try_compressor

COMPRESSORS: Mapping[str, type[Compressor]] = Registry(
    __name__,
    {
        "none": ".casts:Unchanged",
        "bfloat16": ".casts:Bfloat16",
        "float16": ".casts:Float16",
        "float32": ".casts:Float32",
        "qsgd": ".qsgd:Qsgd",
        "sign": ".sign:Sign",
        "top": ".top:Top",
    },
)


def make_compressor(text: str, defaults: Mapping[str, Any] | None = None) -> Compressor:
    """Return the compressor of a specification: `name:key=value,...` or `module:Class`.

    `defaults` are options that it gets if it has them and the text does not set them.
    """
    name, kind, options = resolve("compressor", COMPRESSORS, text)
    known = options_of(kind)
    for key, value in (defaults or {}).items():
        if key in known:
            options.setdefault(key, value)
    custom = is_custom(text)
    made: Any = construct(f"compressor {name}", custom, lambda: kind(**options))
    return OwnCompressor(name, made) if custom else made


def require_fit(compressor: Compressor, shape: tuple[int, int], dtype: Any, what: str) -> None:
    """Raise UserError unless the compressor can take vectors of this shape and dtype.

    One of the user's is tried out.
    """
    custom = isinstance(compressor, OwnCompressor)
    construct(what, custom, lambda: compressor.check(shape[1]))
    if isinstance(compressor, OwnCompressor):
        try_compressor(compressor, shape, dtype)


__all__ = ["COMPRESSORS", "Compiled", "Compressor", "make_compressor", "require_fit"]
