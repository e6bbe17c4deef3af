"""Graphs and mixing matrices, built from specifications or files and checked.

Only root builds a graph: other ranks get their rows of it, and import `network` alone.
"""

from typing import TYPE_CHECKING

from ..spec import attributes_of
from .network import Row

if TYPE_CHECKING:
    from .building import Network, build_network, parse_weights
    from .changing import MATCHINGS, parse_matchings
    from .facts import MOST_EDGES
    from .parsing import FAMILIES, parse_graph, parse_layers, split_turns
    from .weights import WEIGHTS, rho

IN_RANK_ORDER = "rank"
"""The placement that leaves node i to rank i, see placement.py."""

__getattr__ = attributes_of(
    __name__,
    {
        ".building": "Network build_network parse_weights",
        ".changing": "MATCHINGS parse_matchings",
        ".facts": "MOST_EDGES",
        ".parsing": "FAMILIES parse_graph parse_layers split_turns",
        ".weights": "WEIGHTS rho",
    },
)

__all__ = [
    "FAMILIES",
    "IN_RANK_ORDER",
    "MATCHINGS",
    "MOST_EDGES",
    "WEIGHTS",
    "Network",
    "Row",
    "build_network",
    "parse_graph",
    "parse_layers",
    "parse_matchings",
    "parse_weights",
    "rho",
    "split_turns",
]
