"""Node: this rank's place in the graph. It mixes vectors with the neighbours' and takes means."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from .errors import UserError
from .exchange import Exchange, Message
from .graphs import Row

Array = NDArray[Any]
Made = TypeVar("Made")

NEVER = np.iinfo(np.int64).max
CHUNK = 1 << 16  # entries that a mean moves at once, so that root never holds n whole vectors


def add_in_order(rows: Array, total: Array) -> None:
    """The sum of the rows, the first one first, entry by entry.

    numpy's reduction is that, but for a single column, which it would add up pairwise.
    """
    if rows.shape[1] == 1:
        total[:] = np.add.accumulate(rows, axis=0)[-1]
    else:
        np.add.reduce(rows, axis=0, out=total)


class Combine:
    """sum_j A_ij z_j, added up in ascending rank order, the own vector in its place.

    The one place where received numbers are added, so the bits depend neither on the exchange
    nor on the MPI library. Long vectors are taken in pieces that stay in the cache.
    """

    PIECE = 4096

    def __init__(self, row: Row, length: int, dtype: np.dtype[Any]) -> None:
        self._before = sum(neighbour < row.node for neighbour in row.neighbours)
        weights = row.weights.astype(dtype)[:, np.newaxis]
        self._weights = weights[: self._before], dtype.type(row.own), weights[self._before :]
        self._length = length
        self._terms = np.empty((len(weights) + 1, min(length, self.PIECE)), dtype)

    def __call__(self, received: Array, own: Array) -> Array:
        total = np.empty_like(own)
        if self._length <= self.PIECE:
            self._add_up(received, own, self._terms, total)
            return total
        for begin in range(0, self._length, self.PIECE):
            piece = slice(begin, begin + self.PIECE)
            terms = self._terms[:, : len(own[piece])]
            self._add_up(received[:, piece], own[piece], terms, total[piece])
        return total

    def _add_up(self, received: Array, own: Array, terms: Array, total: Array) -> None:
        split = self._before
        before, at, after = self._weights
        np.multiply(received[:split], before, out=terms[:split])
        np.multiply(own, at, out=terms[split])
        np.multiply(received[split:], after, out=terms[split + 1 :])
        add_in_order(terms, total)


class Arrival:
    """One mixed vector of a plan, pending from `mix` until it is waited for."""

    __slots__ = ("_index", "_plan", "pending")

    def __init__(self, plan: "Plan", index: int) -> None:
        self._plan = plan
        self._index = index
        self.pending = False

    def wait(self) -> Array:
        if not self.pending:
            raise RuntimeError("this result of mix was waited for already")
        self.pending = False
        return self._plan.collect(self._index)


class Arrivals(tuple[Arrival, ...]):
    """One pending result a vector; `mix(z).wait()` also works where there is but one."""

    def wait(self) -> Array:
        (only,) = self
        return only.wait()


class Plan:
    """The buffers, the exchange and the results of mixing a given number of vectors."""

    def __init__(self, node: "Node", vectors: Sequence[Array]) -> None:
        self._node = node
        self._shape = vectors[0].shape
        dtype = vectors[0].dtype
        counts = [1] * len(vectors) if node.way.separate else [len(vectors)]
        degree = len(node.row.neighbours)
        self._messages = [Message(degree, count, self._shape, dtype) for count in counts]
        self._exchange = node.way(node.comm, self._messages)
        self._slots = [slot for message in self._messages for slot in message.slots]
        self._where = [(m, part) for m, count in enumerate(counts) for part in range(count)]
        self._combine = Combine(node.row, int(np.prod(self._shape)), dtype)
        self._arrived = [False] * len(counts)
        self._bytes = degree * sum(vector.nbytes for vector in vectors)
        self._results = Arrivals(Arrival(self, index) for index in range(len(vectors)))

    def post(self, vectors: Sequence[Array]) -> Arrivals:
        node = self._node
        for message in self._messages:
            message.header[0] = node.iteration
            message.header[1] = node.stop_at
        for slot, vector in zip(self._slots, vectors, strict=True):
            if vector.shape != self._shape:
                raise ValueError(f"mix got a vector of shape {vector.shape}, not {self._shape}")
            np.copyto(slot, vector)
        self._exchange.start()
        self._arrived = [False] * len(self._messages)
        for result in self._results:
            result.pending = True
        node.bytes_sent += self._bytes
        return self._results

    def require_collected(self) -> None:
        if any(result.pending for result in self._results):
            raise RuntimeError("a result of the last mix was never waited for")

    def collect(self, index: int) -> Array:
        which, part = self._where[index]
        message = self._messages[which]
        if not self._arrived[which]:
            self._exchange.finish(which)
            self._arrived[which] = True
            if message.headers.tobytes() != message.header.tobytes() * len(message.headers):
                self._node.heed(message.headers)
        return self._combine(message.received[part], message.own[part]).reshape(self._shape)

    def free(self) -> None:
        self._exchange.free()


class Node:
    """One rank as one node. Owns a duplicate of the communicator, to be given back by `free`."""

    def __init__(self, comm: MPI.Intracomm, row: Row, way: type[Exchange]) -> None:
        self.row = row
        self.way = way
        self.world = comm.Dup()
        self.nodes = comm.size
        self.is_root = comm.rank == 0
        self.stop_at = NEVER
        self.restart()
        self._plans: dict[int, Plan] = {}
        self._last: Plan | None = None
        self._require_agreement()
        self.comm: MPI.Distgraphcomm = self.world.Create_dist_graph_adjacent(
            row.neighbours, row.neighbours, reorder=False
        )

    def restart(self) -> None:
        """Count iterations and bytes from zero: the next algorithm begins."""
        self.iteration = 0
        self.bytes_sent = 0

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
        together(self.world, lambda: _complain(complaint))

    def mix(self, *vectors: Array) -> Arrivals:
        """Send the vectors to the neighbours in one exchange; one pending result for each."""
        if self._last is not None:
            self._last.require_collected()
        plan = self._plans.get(len(vectors))
        if plan is None:
            plan = self._plans[len(vectors)] = Plan(self, vectors)
        self._last = plan
        return plan.post(vectors)

    def heed(self, headers: Array) -> None:
        """Some neighbour's header is not ours: take over an earlier stop, refuse a wrong stamp."""
        for neighbour, (iteration, stop_at) in zip(self.row.neighbours, headers, strict=True):
            if iteration != self.iteration:
                raise RuntimeError(
                    f"node {self.row.node} is at iteration {self.iteration}, but the message "
                    f"from node {neighbour} is of iteration {iteration}"
                )
            self.stop_at = min(self.stop_at, int(stop_at))

    def mean(self, z: Array, everywhere: bool = True) -> Array | None:
        """The mean of z over the nodes in float64, on every rank or on root only (else None).

        Summed by root in rank order, never by a reduction whose order the library chooses.
        """
        flat = np.ascontiguousarray(z, dtype=np.float64).reshape(-1)
        total = np.empty_like(flat) if everywhere or self.is_root else None
        for begin in range(0, flat.size, CHUNK):
            piece = flat[begin : begin + CHUNK]
            rows = np.empty((self.nodes, piece.size)) if self.is_root else None
            self.world.Gather(piece, rows)
            if rows is not None and total is not None:
                add_in_order(rows, total[begin : begin + CHUNK])
        if total is None:
            return None
        if self.is_root:
            total /= self.nodes
        if everywhere:
            self.world.Bcast(total)
        return total.reshape(z.shape)

    def gather(self, z: Array) -> Array | None:
        """The small array z of every node, (nodes, ...), on root (else None)."""
        z = np.ascontiguousarray(z)
        rows = np.empty((self.nodes, *z.shape), z.dtype) if self.is_root else None
        self.world.Gather(z, rows)
        return rows

    def share(self, flag: bool) -> bool:
        """Root's answer, on every rank."""
        word = np.array([flag], dtype=np.int64)
        self.world.Bcast(word)
        return bool(word[0])

    def collect(self, z: Array) -> Iterator[Array] | None:
        """Every node's z in turn, on root, one at a time (else None; all must call it)."""
        if self.is_root:
            return self._receive_all(z)
        self.world.Send(np.ascontiguousarray(z), dest=0)
        return None

    def _receive_all(self, z: Array) -> Iterator[Array]:
        yield z
        for source in range(1, self.nodes):
            other = np.empty_like(z)
            self.world.Recv(other, source=source)
            yield other

    def free(self) -> None:
        """Give back all that MPI holds for this node, once root is done as well."""
        rest(self.world)
        for plan in self._plans.values():
            plan.free()
        self.comm.Free()
        self.world.Free()


def _complain(complaint: str | None) -> None:
    if complaint is not None:
        raise UserError(complaint)


class RootFailed(Exception):
    """Root had an exception of its own, and will tell of it."""


def on_root(comm: MPI.Intracomm, make: Callable[[], Made]) -> Made | None:
    """What `make` gives, on root (else None). Root's UserError is raised on every rank."""
    result: Made | None = None
    error: Exception | None = None
    if comm.rank == 0:
        try:
            result = make()
        except Exception as caught:
            error = caught
    rest(comm)
    told = comm.bcast(error if error is None or isinstance(error, UserError) else RootFailed())
    if error is not None:
        raise error
    if told is not None:
        raise told
    return result


def together(comm: MPI.Intracomm, make: Callable[[], Made]) -> Made:
    """What `make` gives, on each rank. The first rank's UserError is raised on every rank."""
    result: Made | None = None
    error: UserError | None = None
    try:
        result = make()
    except UserError as caught:
        error = caught
    rest(comm)
    for first in comm.allgather(error):
        if first is not None:
            raise first
    return cast(Made, result)


def first_of_host(comm: MPI.Intracomm) -> bool:
    """Whether this rank is the first on its host."""
    host = comm.Split_type(MPI.COMM_TYPE_SHARED)
    first = host.rank == 0
    host.Free()
    return first


def rest(comm: MPI.Intracomm) -> None:
    """A barrier that sleeps: while some work alone, the others must not take their cores."""
    request = comm.Ibarrier()
    pause = 1e-5
    while not request.Test():
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
