"""Node: one rank as one node of the graph. It mixes with its neighbours and takes part in means."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ..channels import Channel
from ..errors import UserError
from ..graphs.network import Row, Turns
from ..kernels import Mix, NextGradient, NodeCounters, Transfer, advance
from .agreement import agreed_row
from .collective import idle_barrier
from .compression import CompressedMix, Encoder, without_compressor
from .host_group import HostGroup
from .means import GATHERED, PIECE, Tree, add_along_tree
from .message import Exchange
from .plan import CompressedPlan, Plan

Array = NDArray[Any]

NEVER = np.iinfo(np.int64).max


class Node(NodeCounters):
    """One rank as one node. It owns a duplicate of the communicator until `free`.

    Making a Node is collective: every rank makes its own.
    """

    def __init__(self, comm: MPI.Intracomm, row: Row, exchange_class: type[Exchange]) -> None:
        self.exchange_class = exchange_class
        self.world = comm.Dup()
        self.nodes = comm.size
        self._tree = Tree(self.world)
        self.is_root = comm.rank == 0
        self.make_plan: Callable[..., Plan] = Plan
        self.make_compressed_plan: Callable[..., CompressedPlan] = CompressedPlan
        self.rank = comm.rank
        self._barrier: MPI.Request | None = None
        self._host: HostGroup | None = None
        self.plans: list[Plan] = []
        self._word = np.zeros(1, np.int64)
        self._mixes: dict[tuple[str, ...], Mix] = {}
        self._channel: Channel | None = None
        self.restart()
        try:
            self.row = agreed_row(self.world, row)
            self.graph_comms = self._make_graph_comms()
        except UserError:
            self.world.Free()
            raise
        self.mix_by(("A",))
        self.compress_with(None)

    def _make_graph_comms(self) -> list[MPI.Distgraphcomm]:
        """Return a communicator for each layer, with the arcs of that layer as its topology."""
        made: list[MPI.Distgraphcomm] = []
        try:
            for layer in self.row.layers:
                made.append(
                    self.world.Create_dist_graph_adjacent(
                        layer.sources, layer.targets, reorder=False
                    )
                )
        except MPI.Exception as error:  # MPICH has room for some 2000 communicators
            raise UserError(
                f"this MPI cannot make the communicators of {len(self.row.layers)} layers: "
                f"{error.Get_error_string()}; use a graph of fewer layers"
            ) from None
        return made

    @property
    def turns(self) -> Turns:
        """Return which layer each iteration uses."""
        return self.row.turns

    @property
    def reach(self) -> int:
        """Return how many arcs suffice from any node to any other."""
        return self.row.reach or self.nodes

    @property
    def layer(self) -> int:
        """Return the number of this iteration's layer."""
        return self.row.turns.at(self.iteration)

    @property
    def graph_comm(self) -> MPI.Distgraphcomm:
        """Return the communicator of this iteration's layer."""
        return self.graph_comms[self.layer]

    def restart(self) -> None:
        """Set the counters to zero before the next algorithm begins."""
        for plan in self.plans:
            plan.transfer.calls = 0
        self.iteration = 0
        self.bytes_sent = 0
        self.gradients = 0
        self.due = 0
        self.deadline = 0.0
        self.clear_stop()

    def clear_stop(self) -> None:
        """Forget the agreed stop or save. All ranks call it after the same iteration."""
        self.stop_at = NEVER

    def mix_by(self, kinds: Sequence[str]) -> None:
        """Set the matrices of the next method: one for each vector of `mix`, the last repeats."""
        self._kinds = tuple(kinds)
        mix = self._mixes.get(self._kinds)
        if mix is None:
            turns = self.row.turns
            by_turns = turns.at if turns.seed is not None else None
            mix = Mix(self, partial(self._transfer_for, self._kinds), turns.layers, by_turns)
            self._mixes[self._kinds] = mix
        self.mix: Any = mix
        """Sends vectors to the neighbours in one exchange and returns one pending result each."""
        if self._channel is not None:
            from .channel import ChannelMix  # here: few runs need it

            self.mix = ChannelMix(self, self._channel, mix, self._kinds)

    def _transfer_for(
        self, kinds: tuple[str, ...], layer: int, vectors: tuple[Array, ...]
    ) -> Transfer:
        plan = self.make_plan(self, layer, vectors, kinds)
        self.plans.append(plan)
        return plan.transfer

    def hear_through(self, channel: Channel) -> None:
        """Mix over an unreliable channel from now on."""
        self._channel = channel
        self.mix_by(self._kinds)

    def compress_with(self, encoders: Sequence[Encoder] | None) -> None:
        """Set the encoder of `mix.compressed`: a list of one, or None if there is none."""
        if encoders is None:
            self.mix.compressed = without_compressor
            return
        (encoder,) = encoders
        kinds = self._kinds

        def make(layer: int, vectors: Sequence[Array]) -> CompressedPlan:
            plan = self.make_compressed_plan(self, layer, vectors, kinds, encoder)
            self.plans.append(plan)
            return plan

        self.mix.compressed = CompressedMix(lambda: self.layer, make)

    def grad(
        self,
        gradient: Callable[[int, Array], Array],
        full: Callable[[Array], Array],
        costs: tuple[int, int],
    ) -> NextGradient:
        """Return the `grad` of this node's steps; `costs` are sample gradients per call of each."""
        return NextGradient(self, gradient, full, *costs)

    def stepper(
        self, step: Callable[..., Any], grad: Any, last: int
    ) -> Callable[[int, list[Any]], int]:
        """Return `advance` for this node: called as advance(t, states), it returns the new t.

        See `kernels.reference.advance` for the list of states.
        """
        return partial(advance, step, self, self.mix, grad, last)

    def check_headers(self, headers: Array) -> None:
        """Adopt an earlier `stop_at` of a neighbour; raise RuntimeError for another iteration.

        A transfer calls it only if a received header differs from the one that was sent.
        """
        sources = self.row.layers[self.layer].sources
        for source, (iteration, stop_at) in zip(sources, headers, strict=True):
            if iteration != self.iteration:
                raise RuntimeError(
                    f"node {self.row.node} is at iteration {self.iteration}, but the message "
                    f"from node {source} is of iteration {iteration}"
                )
            self.stop_at = min(self.stop_at, int(stop_at))
        self.due = min(self.due, self.stop_at >> 1)

    def mean(self, z: Array, everywhere: bool = True) -> Array | None:
        """Return the mean of z over all nodes in float64: on every rank, or else on root only.

        Collective: every rank calls it. The order of the additions is that of `comm.means`.
        """
        z = np.asarray(z, np.float64, order="C")
        if z.nbytes * self.nodes > GATHERED:
            return self._mean_along_tree(z, everywhere)
        self._wait_for("the mean over all nodes")
        rows = np.empty((self.nodes, z.size)) if self.is_root else None
        self.world.Gather(z, rows)
        mean = None if rows is None else add_along_tree(rows).reshape(z.shape)
        if mean is not None:
            mean /= self.nodes
        if everywhere:
            mean = np.empty(z.shape) if mean is None else mean
            self.world.Bcast(mean)
        self.waiting = None
        return mean

    def _mean_along_tree(self, z: Array, everywhere: bool) -> Array | None:
        """Return the mean of long vectors, in pieces: no rank holds more than two besides its own.

        No rank waits for root's sum before the last piece is sent: the tree works as a pipeline.
        """
        flat = z.reshape(-1)
        mean = np.empty(z.size) if everywhere or self.is_root else None
        pieces = [slice(begin, begin + PIECE) for begin in range(0, z.size, PIECE)]
        kept = self._tree.make_room(min(z.size, PIECE))
        for piece in pieces:
            self._wait_for("the mean over all nodes")
            total = self._tree.add_up(flat[piece], kept)
            self.waiting = None
            if mean is not None and total is not None:
                np.divide(total, self.nodes, out=mean[piece])
        if mean is None:
            return None
        for piece in pieces if everywhere else ():
            self._wait_for("the mean over all nodes")
            self.world.Bcast(mean[piece])
            self.waiting = None
        return mean.reshape(z.shape)

    def gather(self, z: Array) -> Array | None:
        """Return every node's z, stacked to (nodes, ...), on root; None on the other ranks.

        Collective: every rank calls it. For small arrays only: root holds all of them.
        """
        z = np.ascontiguousarray(z)
        rows = np.empty((self.nodes, *z.shape), z.dtype) if self.is_root else None
        self._wait_for("values from all nodes")
        self.world.Gather(z, rows)
        self.waiting = None
        return rows

    def broadcast_flag(self, flag: bool) -> bool:
        """Return root's flag on every rank. Collective: every rank calls it."""
        word = self._word
        word[0] = flag
        self._wait_for("a decision of root")
        self.world.Bcast(word)
        self.waiting = None
        return bool(word[0])

    def start_barrier(self) -> None:
        """Start a barrier without waiting for the others. Collective: every rank calls it."""
        self._barrier = self.world.Ibarrier()

    def finish_barrier(self) -> None:
        """Wait until all ranks have started the barrier that this rank started last, if any."""
        if self._barrier is not None:
            self._wait_for("all nodes to save their state")
            self._barrier.Wait()
            self.waiting = self._barrier = None

    def idle_barrier(self) -> None:
        """Wait for all ranks, without spinning, and for as long as one of them shows that it works.

        Collective: every rank calls it.
        """
        idle_barrier(self.world)

    def host_group(self) -> HostGroup:
        """Return the ranks of this host, the same object each time. Collective: made by all."""
        if self._host is None:
            self._host = HostGroup(self.world)
        return self._host

    def _wait_for(self, what: str) -> None:
        self.waits += 1
        self.waiting = what

    def stream_to_root(self, z: Array) -> Iterator[Array] | None:
        """Return an iterator over every node's z on root; send z and return None elsewhere.

        Collective: every rank calls it. Root holds one received z at a time.
        """
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
        """Free the MPI objects of this node. Collective: every rank calls it.

        The ranks wait for root, which may still be writing files, without spinning.
        """
        self.finish_barrier()
        idle_barrier(self.world)
        for plan in self.plans:
            plan.free()
        for comm in self.graph_comms:
            comm.Free()
        if self._host is not None:
            self._host.free()
        self.world.Free()
