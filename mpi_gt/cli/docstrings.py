"""Descriptions of algorithms, problems, graphs and so on, from their docstrings.

A docstring describes the options of its class or function in a section at its end, one per line:

    Options:
        beta1 in [0, 1): decay rate of the momentum m
        rows >= 1, default as square as possible: rows of the grid

A line has the name, the domain (else the type in the signature stands for it), the default where
the signature has None, and the meaning. A line that is indented further continues the one above.
"""

import inspect
import re
import textwrap
import typing
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from ..spec import options_of


class OptionDoc(NamedTuple):
    """One option as the user sees it."""

    name: str
    default: str
    domain: str
    meaning: str


def summary(thing: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring in one line."""
    text, _ = split_docstring(thing)
    first = " ".join(text.partition("\n\n")[0].split())
    return first.removesuffix(".")


def split_docstring(thing: Callable[..., Any]) -> tuple[str, dict[str, tuple[str, str, str]]]:
    """Return a docstring without its options, and (domain, default, meaning) of each option."""
    own = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    text, _, section = inspect.cleandoc(own or "").partition("\nOptions:\n")
    verb, _, rest = text.strip().partition(" ")
    text = rest[:1].upper() + rest[1:] if verb in ("Return", "Build") else text.strip()
    entries: list[str] = []
    for line in textwrap.dedent(section).splitlines():
        if line[:1].strip():
            entries.append(line)
        elif line.strip() and entries:
            entries[-1] += " " + line.strip()
    options = {}
    for entry in entries:
        head, _, meaning = entry.partition(": ")
        found = re.fullmatch(r"(\w+),? ?(.*?)(?:,? ?default (.*))?", head)
        if found:
            name, domain, default = found.groups()
            options[name] = (domain, default or "", meaning.strip())
    return text, options


def option_docs(thing: Callable[..., Any]) -> list[OptionDoc]:
    """Return all options of a class or function, in the order of its signature.

    A class inherits the descriptions of its bases.
    """
    bases = reversed(inspect.getmro(thing)) if isinstance(thing, type) else [thing]
    described: dict[str, tuple[str, str, str]] = {}
    for base in bases:
        described.update(split_docstring(base)[1])
    docs = []
    for name, parameter in options_of(thing).items():
        domain, default, meaning = described.get(name, ("", "", ""))
        if parameter.default is not None:
            default = str(parameter.default)
        docs.append(OptionDoc(name, default or "none", domain or _domain(parameter), meaning))
    return docs


def _domain(parameter: inspect.Parameter) -> str:
    """Return the domain that the type in the signature stands for."""
    kinds = typing.get_args(parameter.annotation) or (parameter.annotation,)
    if typing.get_origin(parameter.annotation) is Literal:
        return " or ".join(map(str, kinds))
    words = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    return next((words[kind] for kind in kinds if kind in words), "")


def title_of(thing: Callable[..., Any]) -> str:
    """Return the display name of an algorithm; "" for others."""
    return str(getattr(thing, "display_name", ""))
