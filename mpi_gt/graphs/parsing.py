"""Specifications of graphs: families, generators of networkx, files, and several in turn."""

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..spec import convert_options, nearest, split
from .changing import CHANGING
from .directed import DIRECTED
from .families import UNDIRECTED, from_networkx
from .files import read_graph
from .shapes import Shape, shape_of_graph

if TYPE_CHECKING:
    from networkx import Graph

FAMILIES: dict[str, Callable[..., Any]] = {**UNDIRECTED, **DIRECTED, **CHANGING}

MOST_LAYERS = 1000  # each is a communicator
PLUS = re.compile(r"(?<![0-9.][eE])\+")  # not that of 1e+3


def parse_graph(text: str) -> "Callable[[int], Graph | Shape | list[Shape]]":
    """Return the function that builds, for n nodes, the graph that `text` names.

    `text` is a family with its options, `nx.NAME` with options, or a file. An undirected graph is
    one of networkx, a directed one a shape; a changing family gives a list of shapes.
    """
    if text.partition(":")[0].strip() not in FAMILIES and _is_file(text):
        return lambda n: read_graph(Path(text), n)
    name, options = split(text)
    if name.startswith("nx."):
        return lambda n: from_networkx(name.removeprefix("nx."), options, n)
    if name not in FAMILIES:
        raise UserError(f"'{text}' is neither a file nor a known graph{nearest(name, FAMILIES)}")
    family = FAMILIES[name]
    converted = convert_options(f"graph {name}", family, options)

    def build(n: int) -> Any:
        try:
            return family(n, **converted)
        except ValueError as error:
            raise UserError(f"graph {name}: {error}") from None

    return build


def split_turns(text: str) -> list[str]:
    """Split SPEC+SPEC+... into the graphs that take turns; a file's name may have a + in it."""
    if "+" not in text or _is_file(text):
        return [text]
    specs = [spec.strip() for spec in PLUS.split(text)]
    if not all(specs):
        raise UserError(f"'{text}' lacks a graph beside a +")
    return specs


def parse_layers(text: str) -> "Callable[[int], list[Graph | Shape]]":
    """Return the function that builds the layers of a network of n nodes.

    `text` is a specification of a graph, or several joined by + that take turns.
    """
    builders = [parse_graph(spec) for spec in split_turns(text)]

    def build(n: int) -> "list[Graph | Shape]":
        layers = [layer for builder in builders for layer in _layers_of(builder(n))]
        if len(layers) > MOST_LAYERS:
            raise UserError(f"graph {text[:80]}: {len(layers)} layers, at most {MOST_LAYERS}")
        return layers

    return build


def _layers_of(built: "Graph | Shape | Sequence[Shape]") -> "Sequence[Graph | Shape]":
    """Return what a family has built as a list; a directed graph of networkx becomes a shape."""
    if isinstance(built, list):
        return built
    if isinstance(built, Shape):
        return [built]
    graph: Any = built
    return [shape_of_graph(graph)] if graph.is_directed() else [graph]


def _is_file(text: str) -> bool:
    with contextlib.suppress(OSError, ValueError):  # no file can have this name
        return Path(text).is_file()
    return False
