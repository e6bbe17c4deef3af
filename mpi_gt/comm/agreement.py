"""The check that both ends of every arc know of it: neighbours tell each other what they have.

With an arc that only one end knows, the first exchange would hang. A rank does not know who else
counts it among its neighbours, and asking all n ranks would take n words each. So every rank sends
to those that it knows, in such a way that a message is known to be received; a barrier that each
rank enters once all of its own are tells when there is nothing left to receive (Hoefler, Siebert
and Lumsdaine, 2010).
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ..errors import UserError
from ..graphs.network import Row
from .collective import first_of_all, waiting_for

Array = NDArray[Any]

TAG = 23
NONE, UNKNOWN = -1, -2  # places of a node that is no source, and of one that is some source
PLACE_HERE, PLACE_THERE = 0, 1
"""The columns of a message: the receiver among the sender's sources, and the other way round."""
OF_KIND = {2: "A", 3: "push"}
"""The columns with the weight that the sender gives to the receiver."""
TOLERANCE = 1e-6  # of sums of weights


def agreed_row(comm: MPI.Intracomm, row: Row) -> Row:
    """Return the row with all places known, after its neighbours have confirmed it.

    Collective: every rank calls it. Raises UserError on all ranks unless every arc is known to both
    of its ends, and the weights sum to one.
    """
    wrong = _reason_unsound(comm, row)
    ours = {} if wrong else _messages(row)
    theirs = _exchanged(comm, ours)

    error: UserError | None = None
    try:
        if wrong:
            raise UserError(wrong)
        _require_agreement(row, ours, theirs)
    except UserError as caught:
        error = caught
    first = first_of_all(comm, error)  # without a barrier: the exchange before ends in one
    if first is not None:
        raise first
    layers = tuple(
        replace(layer, places=tuple(int(theirs[j][k, PLACE_HERE]) for j in layer.targets))
        for k, layer in enumerate(row.layers)
    )
    return replace(row, layers=layers)


def _reason_unsound(comm: MPI.Intracomm, row: Row) -> str | None:
    """Return why this rank's row makes no sense by itself; None if it does."""
    if row.node != comm.rank:
        return f"rank {comm.rank} was given the row of node {row.node}"
    for layer in row.layers:
        for ends in filter(None, (layer.sources, layer.targets)):
            ordered = list(ends) == sorted(set(ends) - {row.node})
            if not ordered or min(ends) < 0 or max(ends) >= comm.size:
                return f"node {row.node} has the neighbours {list(ends)}, which is wrong"
        if bool(layer.sources) != bool(layer.targets):
            only = "sends" if layer.targets else "hears"
            return (
                f"node {row.node} only {only} in a layer of the graph, and Open MPI's collectives "
                "hang there: each node must both send and hear, or neither"
            )
    return None


def _messages(row: Row) -> dict[int, Array]:
    """Return what this node has of the arcs to and from each neighbour: one line per layer."""
    ends = (j for layer in row.layers for j in (*layer.sources, *layer.targets))
    empty = np.full((len(row.layers), 4), np.nan)
    empty[:, [PLACE_HERE, PLACE_THERE]] = NONE
    messages = {j: empty.copy() for j in sorted(set(ends))}
    for k, layer in enumerate(row.layers):
        for place, source in enumerate(layer.sources):
            line = messages[source][k]
            line[PLACE_HERE] = place
            for column, kind in OF_KIND.items():
                if kind in layer.weights:
                    line[column] = layer.weights[kind][place]
        places = layer.places or (UNKNOWN,) * len(layer.targets)
        for target, place in zip(layer.targets, places, strict=True):
            messages[target][k, PLACE_THERE] = place
    return messages


def _exchanged(comm: MPI.Intracomm, messages: Mapping[int, Array]) -> dict[int, Array]:
    """Send a message to each peer; return what came, by sender. Collective."""
    sending = [comm.Issend([z, MPI.DOUBLE], dest=peer, tag=TAG) for peer, z in messages.items()]
    heard: dict[int, Array] = {}
    barrier: MPI.Request | None = None
    pause, status = 1e-5, MPI.Status()
    with waiting_for(comm, "all other nodes"):
        while barrier is None or not barrier.Test():
            found = comm.Improbe(MPI.ANY_SOURCE, TAG, status)
            if found is not None:
                words = np.empty(status.Get_count(MPI.DOUBLE))
                found.Recv([words, MPI.DOUBLE])
                heard[status.Get_source()] = words.reshape(-1, 4)
                continue
            if barrier is None and MPI.Request.Testall(sending):
                barrier = comm.Ibarrier()
            time.sleep(pause)
            pause = min(2 * pause, 0.001)
    return heard


def _require_agreement(row: Row, ours: Mapping[int, Array], theirs: Mapping[int, Array]) -> None:
    """Raise UserError unless what the neighbours have told agrees with this node's row."""
    for peer in sorted({*ours, *theirs}):
        mine, other = ours.get(peer), theirs.get(peer)
        if mine is None or other is None or mine.shape != other.shape:
            raise _disagreement(row.node, peer)
        for here, there in ((mine, other), (other, mine)):
            claimed, actual = here[:, PLACE_THERE], there[:, PLACE_HERE]
            vague = (claimed == UNKNOWN) & (actual != NONE)
            if not ((claimed == actual) | vague).all():
                raise _disagreement(row.node, peer)
    for k, layer in enumerate(row.layers):
        for kind, own in layer.own.items():
            sums = {} if kind == "push" else {"its sources": float(np.sum(layer.weights[kind]))}
            for column, other_kind in OF_KIND.items():
                if other_kind == kind:
                    sums["its targets"] = sum(float(theirs[j][k, column]) for j in layer.targets)
            for whose, total in sums.items():
                if not abs(own + total - 1) <= TOLERANCE:
                    raise UserError(
                        f"node {row.node}: its own weight and those of {whose} ({kind}) sum to "
                        f"{own + total:.9g}, not to 1"
                    )


def _disagreement(node: int, peer: int) -> UserError:
    return UserError(
        f"nodes {node} and {peer} disagree on the edge between them: only one of them knows it"
    )
