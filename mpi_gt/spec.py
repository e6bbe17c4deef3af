"""Specifications such as `huber:dim=10,noise=0`: a registered name and its options."""

import contextlib
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, Literal, TypeVar, Union

from .errors import UserError

Entry = TypeVar("Entry")

LONGEST = 500
"""Characters that a specification may have where it is the name of a curve or a table's row."""


class Registry(Mapping[str, Entry], Generic[Entry]):
    """Classes by their command-line names, in order; each is given as ".module:Class".

    A class is imported when it is asked for. A rank uses one problem, one method and no graph: to
    import all of them would take half of the package's own share of the start, on every rank.
    """

    def __init__(self, package: str, places: Mapping[str, str]) -> None:
        self._package = package
        self._places = places
        self._found: dict[str, Entry] = {}

    def __getitem__(self, name: str) -> Entry:
        if name not in self._found:
            module, _, attribute = self._places[name].partition(":")
            self._found[name] = getattr(import_module(module, self._package), attribute)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def attributes_of(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names come from these modules, when needed.

    `modules` holds the names of each module, separated by blanks.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name], package), name)

    return find


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of an "unknown ..." message: the closest known word, and all of them."""
    import difflib  # here: only a misspelt name needs it

    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.55)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"{hint} (known: {', '.join(known) or 'none'})"


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split `name:key=value,key=value` into the name and its options, still as text."""
    name, _, rest = text.partition(":")
    require_showable("a specification", name.strip())
    options: dict[str, str] = {}
    for item in filter(None, pieces_of(rest)):
        key, equals, value = item.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UserError(f"'{item}' in '{text}' is not of the form key=value")
        if key in options:
            raise UserError(f"'{key}' is given twice in '{text}'")
        options[key] = value.strip()
    return name.strip(), options


def pieces_of(text: str) -> list[str]:
    """Split at commas, but not inside brackets: offsets=[1,3] is one piece."""
    pieces, depth = [""], 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    pieces = [piece.strip() for piece in pieces]
    for piece in pieces:
        require_showable("a specification", piece)
    return pieces


def require_showable(what: str, text: str) -> None:
    """Raise UserError for a text that tables and figures cannot show: unprintable, or too long."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UserError(
            f"{what} is not valid text: {text[:80]!a} (it must be UTF-8, and the locale as well: "
            "set LC_ALL=C.UTF-8)"
        )
    if not text.isprintable():
        raise UserError(f"{what} holds a character that cannot be printed: {text[:80]!a}")
    if len(text) > LONGEST:
        raise UserError(f"{what} has more than {LONGEST} characters: '{text[:40]}...'")


def split_list(text: str) -> list[str]:
    """Split the list `a:k=v,l=w,b:k=v` into `a:k=v,l=w` and `b:k=v`.

    An item begins at each piece that has no `=` before its colon.
    """
    items: list[str] = []
    for piece in pieces_of(text):
        if piece and ("=" not in piece.partition(":")[0] or not items):
            items.append(piece)
        elif piece:
            items[-1] += ("," if "=" in items[-1] else ":") + piece
    return items


def parse(kind: str, registry: Mapping[str, Any], text: str) -> tuple[str, Any, dict[str, Any]]:
    """Return the name, the registered factory, and its options in their declared types."""
    name, options = split(text)
    if name not in registry:
        raise UserError(f"unknown {kind} '{name}'{nearest(name, registry)}")
    factory = registry[name]
    return name, factory, convert_options(f"{kind} {name}", factory, options)


def convert_options(
    what: str, factory: Callable[..., Any], options: Mapping[str, str]
) -> dict[str, Any]:
    """Convert each option to the type that the factory's signature declares for it."""
    known = options_of(factory)
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
    """Return whether the factory takes this option."""
    return key in options_of(factory)


def default_of(factory: Callable[..., Any], key: str) -> Any:
    """Return the default of one of the factory's options."""
    return options_of(factory)[key].default


def set_option(text: str, key: str, value: str) -> str:
    """Return the specification with this option added or replaced."""
    name, options = split(text)
    return join(name, {**options, key: value})


def join(name: str, options: Mapping[str, str]) -> str:
    """Return the specification of a name with its options."""
    return name + ":" * bool(options) + ",".join(f"{key}={it}" for key, it in options.items())


def options_of(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters with a default; the user cannot set the others."""
    try:
        signature = inspect.signature(factory, eval_str=True)
    except NameError:  # an annotation cannot be evaluated: the types of the defaults have to do
        signature = inspect.signature(factory)
    return {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.default is not parameter.empty
        and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    }


def convert(what: str, declared: Any, text: str) -> Any:
    """Convert `text` to the declared type: int, float, bool, str, a Literal, or `T | None`."""
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
    """Convert `text` to an int; 2e4 is a whole number too."""
    if re.fullmatch(r"[+-]?[0-9]{1,30}", text):
        return int(text)
    if re.fullmatch(r"[+-]?[0-9.]+[eE][+]?[0-9]{1,2}", text):
        with contextlib.suppress(ValueError, OverflowError):
            if (number := float(text)).is_integer():
                return int(number)
    raise UserError(f"{what} must be a whole number, not '{text}'")
