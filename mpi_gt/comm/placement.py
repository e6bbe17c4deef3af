"""Ranks in a new order: rank r of the new communicator owns node r, wherever it was started.

Nothing beyond this module knows of placements: for a run, its rank is its node.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import Diverged, Stopped, UserError
from ..graphs import Network
from ..graphs.placement import parse_placement, placement_facts
from .collective import WatchedComm, on_root

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass
class PlacedRanks:
    """A communicator whose ranks are nodes; on root also the network and the placement's facts."""

    comm: "MPI.Intracomm"
    network: Network | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def take_network(self) -> Network | None:
        """Return the network, if there is one, and forget it: it may be large."""
        network, self.network = self.network, None
        return network


@contextmanager
def placed_ranks(
    comm: "MPI.Intracomm", place: str, make_network: Callable[[], Network]
) -> Iterator[PlacedRanks]:
    """Yield the ranks of `comm` in the order of the nodes that they own, for a `with` block.

    Collective: every rank calls it. `make_network` is called on root only; if it raises UserError,
    all ranks do.
    """
    hosts = comm.gather(os.uname().nodename)
    facts: dict[str, Any] = {}

    def choose() -> tuple[Network, list[tuple[int, bool]]]:
        assert hosts is not None
        network = make_network()
        nodes = parse_placement(place)(network, hosts)
        facts.update(placement_facts(place, network, hosts, nodes))
        moved = any(node != rank for rank, node in enumerate(nodes))
        return network, [(int(node), moved) for node in nodes]

    network, nodes = on_root(comm, choose) or (None, None)
    node, moved = comm.scatter(nodes)
    if not moved:
        yield PlacedRanks(comm, network, facts)
        return
    ordered = _ordered(comm, node)
    try:
        yield PlacedRanks(ordered, network, facts)
    except (UserError, Diverged, Stopped):  # of all ranks: others leave it to the end of MPI
        _free(comm, ordered)
        raise
    _free(comm, ordered)


def _ordered(comm: "MPI.Intracomm", node: int) -> Any:
    """Return a communicator in which this rank has the number `node`, watched like `comm`."""
    ordered = comm.Split(0, node)
    if isinstance(comm, WatchedComm) and isinstance(ordered, WatchedComm):
        comm.node = node
        ordered.watchdog = comm.watchdog
        if comm.watchdog is not None:
            comm.watchdog.watch(ordered)
    return ordered


def _free(comm: "MPI.Intracomm", ordered: Any) -> None:
    if isinstance(comm, WatchedComm):
        comm.node = None
        if comm.watchdog is not None:
            comm.watchdog.watch(comm)
    ordered.Free()
