"""The exchange `shared`: slots in shared memory within a host, messages between hosts.

Each rank has a segment of a shared window: a word that counts its exchanges, and two slots, used in
turn. It fills a slot and publishes it by raising the word; its neighbours on the host read the slot
in place. Nobody reads a slot any more once all readers have published the exchange after it, for a
rank waits for all results before it mixes again. On an undirected graph a rank has seen those words
before it comes back to the slot; on a directed one it waits for them.
"""

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ..graphs.network import LayerRow
from ..kernels import C
from ..kernels.shared import Words, reached
from .message import Exchange, Message
from .segments import Segments

Array = NDArray[Any]


class Shared(Exchange):
    """Vectors in shared memory for the neighbours on this host, and messages for all others."""

    needs = "MPI_Win_allocate_shared (of MPI 3)"

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message], row: LayerRow) -> None:
        super().__init__(comm, messages, row)
        (self._message,) = messages
        self._segments = Segments(comm, self._message.send.size)
        own = [self._segments.slot(comm.rank, side) for side in (0, 1)]
        self._remote = Remote.of(comm, row, self._segments, own)
        self._sides = [
            self._message.elsewhere(own[side], [self._row(j, side) for j in row.sources])
            for side in (0, 1)
        ]
        readers = row.targets if row.targets != row.sources else ()
        self._heard = {j: self._segments.word(j) for j in row.sources if j in self._segments}
        self._readers = {j: self._segments.word(j) for j in readers if j in self._segments}
        self._words = Words(
            self._segments.word(comm.rank),
            tuple(self._heard.values()),
            tuple(self._readers.values()),
        )
        self._in_place = False
        self.start: Callable[[], object] = self._copy_and_start

    def _row(self, source: int, side: int) -> Array:
        """Return where the message of a source will be found: in its slot, or as received."""
        if self._remote is None or source in self._segments:
            return self._segments.slot(source, side)
        return self._remote.row(source, side)

    def in_place(self) -> tuple[list[Sequence[Message]], Callable[[], object] | None]:
        """Use the slots as buffers from now on, instead of copying to and from them."""
        if C is None:
            return super().in_place()
        self._in_place = True
        self.start = self._words.publish if self._remote is None else self._start
        if self._remote is None:
            self.finish = self._words.wait  # type: ignore[method-assign]
        prepare = self._words.wait_for_readers if self._readers else None
        return [[side] for side in self._sides], prepare

    def outgoing(self) -> Sequence[Message]:
        return [self._next_side()] if self._in_place else self.messages

    def _next_side(self) -> Message:
        return self._sides[self._words.count & 1]

    def _copy_and_start(self) -> None:
        if self._readers:
            self._words.wait_for_readers()
        np.copyto(self._next_side().send, self._message.send)
        self._start()

    def _start(self) -> None:
        if self._remote is not None:
            self._remote.start(self._words.count & 1)
        self._segments.window.Sync()
        self._words.publish()

    def finish(self, index: int) -> None:
        # messages first: MPI moves them only while this rank is in one of its calls
        if self._remote is not None:
            self._remote.wait()
        self._words.wait(index)
        self._segments.window.Sync()
        if not self._in_place:
            last = self._sides[(self._words.count - 1) & 1]
            for row, slot in zip(self._message.receive, last.receive, strict=True):
                np.copyto(row, slot)

    def silent(self, iteration: int) -> list[int]:
        if self._segments.freed:
            return []
        count = self._words.count
        if self._words.for_readers:
            return [j for j, word in self._readers.items() if not reached(word, count)]
        headers = self._sides[(count - 1) & 1].headers
        return [
            j
            for j, header in zip(self.sources, headers, strict=True)
            if not (reached(self._heard[j], count) if j in self._heard else header[0] == iteration)
        ]

    def free(self) -> None:
        if self._remote is not None:
            self._remote.free()
        self._segments.free()


class Remote:
    """The exchange with neighbours on other hosts, by persistent requests for each of two slots."""

    def __init__(
        self, comm: MPI.Intracomm, ends: tuple[list[int], list[int]], sends: Sequence[Array]
    ) -> None:
        sources, targets = ends
        self._places = {source: place for place, source in enumerate(sources)}
        self._receives = [np.zeros((len(sources), send.size), np.int64) for send in sends]
        self._comm = comm.Create_dist_graph_adjacent(sources, targets, reorder=False)
        # Open MPI's collectives hang where a rank has neighbours at one end only
        one_sided = comm.allreduce(bool(sources) != bool(targets), op=MPI.LOR)
        self._requests = self._collectives(sends) if sources and not one_sided else []
        if comm.allreduce(bool(sources) and not self._requests, op=MPI.LOR):
            self._free_requests()
            self._requests = [self._messages(ends, *side) for side in self._sides(sends)]
        self._started: list[MPI.Prequest] = []

    @classmethod
    def of(
        cls, comm: MPI.Intracomm, row: LayerRow, here: Container[int], sends: Sequence[Array]
    ) -> "Remote | None":
        """Return the exchange with those who are not `here`; None if no rank has such neighbours.

        Collective: every rank calls it.
        """
        ends = [j for j in row.sources if j not in here], [j for j in row.targets if j not in here]
        return cls(comm, ends, sends) if comm.allreduce(len(ends[0]) + len(ends[1])) else None

    def _sides(self, sends: Sequence[Array]) -> list[tuple[Array, Array]]:
        return list(zip(sends, self._receives, strict=True))

    def _collectives(self, sends: Sequence[Array]) -> list[list[MPI.Prequest]]:
        """Return a persistent collective for each slot; nothing if MPI lacks it (before MPI 4)."""
        try:
            return [[self._comm.Neighbor_allgather_init(*side)] for side in self._sides(sends)]
        except (NotImplementedError, MPI.Exception):
            return []

    def _messages(
        self, ends: tuple[list[int], list[int]], send: Array, receive: Array
    ) -> list[MPI.Prequest]:
        sources, targets = ends
        requests = [self._comm.Recv_init(receive[i], source=j) for i, j in enumerate(sources)]
        return requests + [self._comm.Send_init(send, dest=j) for j in targets]

    def row(self, source: int, side: int) -> Array:
        """Return where messages of a source arrive."""
        row: Array = self._receives[side][self._places[source]]
        return row

    def start(self, side: int) -> None:
        """Send that slot, and receive those of the others."""
        if self._requests:
            self._started = self._requests[side]
            MPI.Prequest.Startall(self._started)

    def wait(self) -> None:
        """Wait until the messages of the last start have come and gone."""
        MPI.Request.Waitall(self._started)

    def free(self) -> None:
        self._free_requests()
        self._comm.Free()

    def _free_requests(self) -> None:
        for side in self._requests:
            for request in side:
                request.Free()
        self._requests = []
