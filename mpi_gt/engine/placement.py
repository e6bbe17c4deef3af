"""Placement of a run: its communicator, in which each rank is a node that suits its host."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import RunConfig
from ..errors import UserError
from ..graphs import IN_RANK_ORDER

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..comm.placement import PlacedRanks
    from ..graphs import Network


@contextlib.contextmanager
def placed_run(config: RunConfig, comm: "MPI.Intracomm | None") -> "Iterator[PlacedRanks | None]":
    """Yield the ranks of a run in the order of their nodes; None if they stay as they are.

    Collective: every rank calls it.
    """
    if comm is None or config.stacked or config.place == IN_RANK_ORDER:
        yield None
        return
    from ..comm.placement import placed_ranks  # here: it imports MPI

    require_ranks(config, comm)
    nodes = comm.size
    with placed_ranks(comm, config.place, lambda: network_of(config, nodes)) as placed:
        yield placed


def network_of(config: RunConfig, nodes: int, placed: "PlacedRanks | None" = None) -> "Network":
    """Return the network of a run, which a placement may have built already. For root only."""
    from ..graphs import build_network

    built = placed.take_network() if placed else None
    return built or build_network(config.graph, config.weights, nodes, config.matchings)


def require_ranks(config: RunConfig, comm: "MPI.Intracomm") -> RunConfig:
    """Return the configuration with the number of ranks; raise UserError if it asks for another."""
    if config.n not in (None, comm.size):
        raise UserError(f"-n {config.n} was asked for, but there are {comm.size} MPI ranks")
    config = replace(config, n=comm.size)
    config.check_performance_options()
    return config


def facts_of_placement(
    network: "Network", hosts: Sequence[str], placed: "PlacedRanks | None"
) -> dict[str, Any]:
    """Return what run.json says of the placement: nothing of ranks in their order on one host."""
    from ..graphs.placement import placement_facts

    if placed is not None:
        return {"placement": placed.facts}
    if len(set(hosts)) == 1:
        return {}
    in_order = np.arange(network.nodes)
    return {"placement": placement_facts(IN_RANK_ORDER, network, hosts, in_order)}
