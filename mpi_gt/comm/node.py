"""Node: this rank's place in the graph. It mixes vectors with the neighbours' and takes means."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ..errors import UserError
from ..graphs import Row
from ..kernels import Mix, NextGradient, NodeCounters, Transfer, advance
from ..kernels.reference import add_in_order
from .collective import idle_barrier, on_every_rank
from .exchange import Exchange
from .plan import Plan

Array = NDArray[Any]

NEVER = np.iinfo(np.int64).max
CHUNK = 1 << 16  # entries that a mean moves at once, so that root never holds n whole vectors


class Node(NodeCounters):
    """One rank as one node. Owns a duplicate of the communicator, to be given back by `free`."""

    def __init__(self, comm: MPI.Intracomm, row: Row, exchange_class: type[Exchange]) -> None:
        self.row = row
        self.exchange_class = exchange_class
        self.world = comm.Dup()
        self.nodes = comm.size
        self.is_root = comm.rank == 0
        self.make_plan: Callable[[Node, Sequence[Array]], Plan] = Plan
        self.rank = comm.rank
        self.restart()
        self._barrier: MPI.Request | None = None
        self._plans: list[Plan] = []
        self._word = np.zeros(1, np.int64)
        self.mix = Mix(self._transfer_for)
        """Sends vectors to the neighbours in one exchange; gives one pending result for each."""
        try:
            self._require_agreement()
        except UserError:
            self.world.Free()
            raise
        self.graph_comm: MPI.Distgraphcomm = self.world.Create_dist_graph_adjacent(
            row.neighbours, row.neighbours, reorder=False
        )

    def restart(self) -> None:
        """Count iterations and bytes from zero: the next algorithm begins."""
        self.iteration = 0
        self.bytes_sent = 0
        self.due = 0
        self.clear_stop()

    def clear_stop(self) -> None:
        """All ranks do so at the same iteration."""
        self.stop_at = NEVER

    def _require_agreement(self) -> None:
        """Both ends know of every edge, with the same weight: else the first exchange hangs."""
        ours = np.full(self.nodes, np.nan)
        ours[list(self.row.neighbours)] = self.row.weights
        theirs = np.empty_like(ours)
        self.world.Alltoall(ours, theirs)
        differing = np.nonzero(~((ours == theirs) | (np.isnan(ours) & np.isnan(theirs))))[0]
        complaint = None
        if self.row.node != self.world.rank:
            complaint = f"rank {self.world.rank} was given the row of node {self.row.node}"
        elif len(differing):
            j = differing[0]
            complaint = (
                f"nodes {self.row.node} and {j} disagree on the edge between them: "
                f"the weights are {ours[j]} and {theirs[j]} (nan: no edge)"
            )
        on_every_rank(self.world, lambda: _complain(complaint))

    def _transfer_for(self, *vectors: Array) -> Transfer:
        plan = self.make_plan(self, vectors)
        self._plans.append(plan)
        return plan.transfer

    def stepper(
        self, step: Callable[..., Any], gradient: Callable[[int, Array], Array], last: int
    ) -> Callable[[int, list[Any]], int]:
        """walk(t, states) takes steps until one is due; its t. See there for the states."""
        grad = NextGradient(self, gradient)
        return partial(advance, step, self, self.mix, grad, last)

    def check_headers(self, headers: Array) -> None:
        """Some neighbour's header is not ours: take over an earlier stop, refuse a wrong stamp."""
        for neighbour, (iteration, stop_at) in zip(self.row.neighbours, headers, strict=True):
            if iteration != self.iteration:
                raise RuntimeError(
                    f"node {self.row.node} is at iteration {self.iteration}, but the message "
                    f"from node {neighbour} is of iteration {iteration}"
                )
            self.stop_at = min(self.stop_at, int(stop_at))
        self.due = min(self.due, self.stop_at >> 1)

    def mean(self, z: Array, everywhere: bool = True) -> Array | None:
        """The mean of z over the nodes in float64, on every rank or on root only (else None).

        Summed by root in rank order, never by a reduction whose order the library chooses.
        """
        z = np.asarray(z, np.float64, order="C")
        if z.size > CHUNK:
            return self._mean_of_pieces(z, everywhere)
        self._wait_for("the mean over all nodes")
        mean = np.empty(z.shape) if everywhere or self.is_root else None
        rows = np.empty((self.nodes, z.size)) if self.is_root else None
        self.world.Gather(z, rows)
        if rows is not None and mean is not None:
            add_in_order(rows, mean.reshape(-1))
            mean /= self.nodes
        if everywhere:
            self.world.Bcast(mean)
        self.waiting = None
        return mean

    def _mean_of_pieces(self, z: Array, everywhere: bool) -> Array | None:
        flat = z.reshape(-1)
        mean = np.empty_like(flat) if everywhere or self.is_root else None
        for begin in range(0, flat.size, CHUNK):
            piece = self.mean(flat[begin : begin + CHUNK], everywhere)
            if mean is not None:
                mean[begin : begin + CHUNK] = piece
        return None if mean is None else mean.reshape(z.shape)

    def gather(self, z: Array) -> Array | None:
        """The small array z of every node, (nodes, ...), on root (else None)."""
        z = np.ascontiguousarray(z)
        rows = np.empty((self.nodes, *z.shape), z.dtype) if self.is_root else None
        self._wait_for("numbers of all nodes")
        self.world.Gather(z, rows)
        self.waiting = None
        return rows

    def broadcast_flag(self, flag: bool) -> bool:
        """Root's answer, on every rank."""
        word = self._word
        word[0] = flag
        self._wait_for("a word from root")
        self.world.Bcast(word)
        self.waiting = None
        return bool(word[0])

    def start_barrier(self) -> None:
        """Tell the others, without waiting for them, that this rank has come so far."""
        self._barrier = self.world.Ibarrier()

    def finish_barrier(self) -> None:
        """Wait until all ranks have come to where this one last said so."""
        if self._barrier is not None:
            self._wait_for("all nodes to save their state")
            self._barrier.Wait()
            self.waiting = self._barrier = None

    def _wait_for(self, what: str) -> None:
        self.waits += 1
        self.waiting = what

    def stream_to_root(self, z: Array) -> Iterator[Array] | None:
        """Every node's z in turn, on root, one at a time (else None; all must call it)."""
        if self.is_root:
            return self._receive_all(z)
        self._wait_for("root to take the output")
        self.waits += self.nodes - 2  # root waits once for each of the others
        self.world.Send(np.ascontiguousarray(z), dest=0)
        self.waiting = None
        return None

    def _receive_all(self, z: Array) -> Iterator[Array]:
        yield z
        for source in range(1, self.nodes):
            other = np.empty_like(z)
            self._wait_for(f"the output of node {source}")
            self.world.Recv(other, source=source)
            self.waiting = None
            yield other

    def free(self) -> None:
        """Give back all that MPI holds for this node, once root is done as well."""
        self.finish_barrier()
        idle_barrier(self.world)
        for plan in self._plans:
            plan.free()
        self.graph_comm.Free()
        self.world.Free()


def _complain(complaint: str | None) -> None:
    if complaint is not None:
        raise UserError(complaint)
