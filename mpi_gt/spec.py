"""Specifications such as `huber:dim=10,noise=0`: a name and the options of what it names."""

import contextlib
import difflib
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Union

from .errors import UserError


def nearest(word: str, known: Iterable[str]) -> str:
    """What to add to "unknown ...": the likeliest intended word, and all that would do."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.55)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"{hint} (known: {', '.join(known) or 'none'})"


def split(text: str) -> tuple[str, dict[str, str]]:
    """`name:key=value,key=value` as the name and its options, still text."""
    name, _, rest = text.partition(":")
    options: dict[str, str] = {}
    for item in filter(None, _pieces(rest)):
        key, equals, value = item.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UserError(f"'{item}' in '{text}' is not of the form key=value")
        if key in options:
            raise UserError(f"'{key}' is given twice in '{text}'")
        options[key] = value.strip()
    return name.strip(), options


def _pieces(text: str) -> list[str]:
    """Split at commas, but not inside brackets: offsets=[1,3] is one piece."""
    pieces, depth = [""], 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]


def split_list(text: str) -> list[str]:
    """`a:k=v,l=w,b:k=v` as its items: one begins where a piece has no `=` before its colon."""
    items: list[str] = []
    for piece in _pieces(text):
        if piece and ("=" not in piece.partition(":")[0] or not items):
            items.append(piece)
        elif piece:
            items[-1] += ("," if "=" in items[-1] else ":") + piece
    return items


def parse(kind: str, registry: Mapping[str, Any], text: str) -> tuple[str, Any, dict[str, Any]]:
    """The name, the registered thing, and its options converted to their declared types."""
    name, options = split(text)
    if name not in registry:
        raise UserError(f"unknown {kind} '{name}'{nearest(name, registry)}")
    factory = registry[name]
    return name, factory, convert_options(f"{kind} {name}", factory, options)


def convert_options(
    what: str, factory: Callable[..., Any], options: Mapping[str, str]
) -> dict[str, Any]:
    """Each option as the type that the factory's signature declares for it."""
    known = _options_of(factory)
    converted = {}
    for key, value in options.items():
        if key not in known:
            raise UserError(f"{what} has no option '{key}'{nearest(key, known)}")
        declared = known[key].annotation
        if declared is inspect.Parameter.empty or isinstance(declared, str):
            declared = type(known[key].default)
        converted[key] = convert(f"{what}: {key}", declared, value)
    return converted


def has_option(factory: Callable[..., Any], key: str) -> bool:
    return key in _options_of(factory)


def default_of(factory: Callable[..., Any], key: str) -> Any:
    return _options_of(factory)[key].default


def set_option(text: str, key: str, value: str) -> str:
    """The specification with this option in place of its own, if it has one."""
    name, options = split(text)
    options[key] = value
    return f"{name}:" + ",".join(f"{k}={v}" for k, v in options.items())


def describe(name: str, factory: Callable[..., Any]) -> str:
    """`name:key=default,...` with all options that the thing takes."""
    items = []
    for key, parameter in _options_of(factory).items():
        default = "..." if parameter.default is None else str(parameter.default)
        if typing.get_origin(parameter.annotation) is Literal:
            default = "|".join(typing.get_args(parameter.annotation))
        items.append(f"{key}={default}")
    return f"{name}:{','.join(items)}" if items else name


def _options_of(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that have a default; others are not the user's to give."""
    try:
        signature = inspect.signature(factory, eval_str=True)
    except NameError:  # an annotation that cannot be evaluated: go by the defaults
        signature = inspect.signature(factory)
    return {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.default is not parameter.empty
        and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    }


def convert(what: str, declared: Any, text: str) -> Any:
    """`text` as the declared type (int, float, bool, str, a Literal, or one of these or None)."""
    origin = typing.get_origin(declared)
    if origin in (Union, types.UnionType):
        declared = next(kind for kind in typing.get_args(declared) if kind is not type(None))
        return convert(what, declared, text)
    if origin is Literal:
        if text not in typing.get_args(declared):
            raise UserError(f"{what} cannot be '{text}'{nearest(text, typing.get_args(declared))}")
        return text
    if declared is bool:
        if text.lower() not in ("true", "false", "yes", "no", "1", "0"):
            raise UserError(f"{what} must be true or false, not '{text}'")
        return text.lower() in ("true", "yes", "1")
    if declared is int:
        return integer(what, text)
    if declared is float:
        try:
            return float(text)
        except ValueError:
            raise UserError(f"{what} must be a number, not '{text}'") from None
    return text


def integer(what: str, text: str) -> int:
    """A whole number; 2e4 is one as well."""
    if re.fullmatch(r"[+-]?[0-9]{1,30}", text):
        return int(text)
    if re.fullmatch(r"[+-]?[0-9.]+[eE][+]?[0-9]{1,2}", text):
        with contextlib.suppress(ValueError, OverflowError):
            if (number := float(text)).is_integer():
                return int(number)
    raise UserError(f"{what} must be a whole number, not '{text}'")
