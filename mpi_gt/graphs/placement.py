"""Placements: which rank owns which node, so that few edges lie between hosts.

A placement holds the node of each rank. Rank 0 always owns node 0: it has the terminal and the
files.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..spec import parse
from . import IN_RANK_ORDER
from .partition import improve_pairs, partition
from .web import web_of

if TYPE_CHECKING:
    from . import Network

Array = NDArray[Any]
Rule = Callable[["Network", Sequence[str]], Array]
"""A rule for placements, called with a network and the host of each rank."""


def in_rank_order() -> Rule:
    """Give node r to rank r, wherever the launcher has started it."""
    return lambda network, hosts: np.arange(network.nodes)


def along_graph() -> Rule:
    """Give each host nodes with few edges to the nodes of other hosts.

    By recursive bisection, the same on every machine. Rank order stays where nothing better is
    found. An edge of a changing graph counts as often as it is used.
    """
    return _along_graph


def at_random(*, seed: int = 0) -> Rule:
    """Give the nodes to ranks in random order, to measure what a placement is worth.

    Options:
        seed in [0, 2^63]: random seed of the order
    """
    if not 0 <= seed <= 2**63:
        raise ValueError(f"seed must be in [0, 2^63], not {seed}")

    def shuffled(network: "Network", hosts: Sequence[str]) -> Array:
        order = np.random.Generator(np.random.Philox(key=seed)).permutation(network.nodes - 1)
        return np.concatenate(([0], 1 + order))

    return shuffled


PLACEMENTS: dict[str, Callable[..., Rule]] = {
    IN_RANK_ORDER: in_rank_order,
    "graph": along_graph,
    "shuffled": at_random,
}


def parse_placement(text: str) -> Rule:
    """Return the rule that `text` names: rank, graph or shuffled:seed=S."""
    name, make, options = parse("placement", PLACEMENTS, text)
    try:
        rule: Rule = make(**options)
    except ValueError as error:
        raise UserError(f"placement {name}: {error}") from None
    return rule


def _along_graph(network: "Network", hosts: Sequence[str]) -> Array:
    capacities = list(Counter(hosts).values())  # that of rank 0's host first
    if len(capacities) in (1, len(hosts)):
        return np.arange(len(hosts))  # no placement is better than another
    numbers = {host: number for number, host in enumerate(Counter(hosts))}
    host_of_rank = np.array([numbers[host] for host in hosts])
    web = web_of(network.arcs, network.directed)
    in_order, divided = host_of_rank.copy(), partition(web, capacities)
    found = [host_of_rank]
    for parts in (in_order, divided):
        improve_pairs(web, parts, capacities)
        found.append(parts)
    best = min(found, key=web.cut)  # the first of several
    placed = np.empty(len(hosts), np.int64)
    for number in range(len(capacities)):
        placed[host_of_rank == number] = np.flatnonzero(best == number)
    return placed


def placement_facts(
    place: str, network: "Network", hosts: Sequence[str], nodes: Array
) -> dict[str, Any]:
    """Return the facts of a placement for run.json; `nodes` holds that of each rank.

    Edges are arcs if `directed` is there; those of a changing graph are counted in all `layers`.
    """
    numbers = {host: number for number, host in enumerate(Counter(hosts))}
    host_of_rank = np.array([numbers[host] for host in hosts])
    ranks = np.argsort(nodes)
    layers = network.arcs.layers
    both = 1 if network.directed else 2  # arcs per edge
    facts: dict[str, Any] = {
        "place": place,
        "hosts": len(numbers),
        "edges": sum(len(layer.sources) for layer in layers) // both,
        "between_hosts": _count_between(network, host_of_rank[ranks]) // both,
        "in_rank_order": _count_between(network, host_of_rank) // both,
        # one text: in a list, run.json would have a line per number
        "rank_of_node": " ".join(map(str, ranks.tolist())),
    }
    if network.directed:
        facts["directed"] = True
    if len(layers) > 1:
        facts["layers"] = len(layers)
    return facts


def _count_between(network: "Network", host_of_node: Array) -> int:
    """Return the number of arcs between hosts, in all layers."""
    return sum(
        int((host_of_node[layer.sources] != host_of_node[layer.receivers]).sum())
        for layer in network.arcs.layers
    )


def parse_host_sizes(text: str, n: int) -> list[str]:
    """Return the host of each rank for `4x4` (hosts times ranks) or `2x4,1x8`, with n ranks."""
    hosts: list[str] = []
    for item in text.split(","):
        count, cross, ranks = item.strip().partition("x")
        if not (cross and count.isdecimal() and ranks.isdecimal() and len(item) < 20):
            raise UserError(f"--hosts takes HOSTSxRANKS, as 4x4 or 2x4,1x8, not '{text[:80]}'")
        if not 1 <= int(count) * int(ranks) <= n - len(hosts):
            break
        first = len(set(hosts))
        hosts += [f"h{first + k}" for k in range(int(count)) for _ in range(int(ranks))]
    else:
        if len(hosts) == n:
            return hosts
    raise UserError(f"--hosts {text[:80]} is not a place for {n} ranks, one for each of -n {n}")
