"""The exchange `shared`: slots in shared memory within a host, messages between hosts.

Each rank has a segment of a shared window: a word that counts its exchanges, and two slots, used in
turn. It fills a slot and publishes it by raising the word; its neighbours on the host read the slot
in place. Nobody reads a slot any more once all readers have published the exchange after it, for a
rank waits for all results before it mixes again. On an undirected graph a rank has seen those words
before it comes back to the slot; on a directed one it waits for them.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ..errors import UserError
from ..kernels import C
from ..kernels.shared import Words, reached
from .collective import on_every_rank
from .exchange import Exchange, Message

Array = NDArray[Any]

LINE = 64  # bytes of a cache line
BEFORE = LINE - 16  # bytes before a slot, so that the vectors after its header begin with a line
MEMORY = "/dev/shm"
PIECE = 1 << 24  # bytes per call that takes hold of memory


class Shared(Exchange):
    """Vectors in shared memory for the neighbours on this host, and messages for all others."""

    needs = "MPI_Win_allocate_shared (of MPI 3)"

    def __init__(self, comm: MPI.Distgraphcomm, messages: Sequence[Message]) -> None:
        super().__init__(comm, messages)
        (message,) = messages
        sources, targets, _ = comm.Get_dist_neighbors()
        self._segments = Segments(comm, message.send.size)
        places = self._segments.places
        self._message = message
        here = [j for j in sources if j in places]
        readers = [j for j in targets if j in places] if list(sources) != list(targets) else []
        self._words_of_sources = {j: self._segments.word(places[j]) for j in here}
        self._words = Words(
            self._segments.word(self._segments.own),
            tuple(self._words_of_sources.values()),
            tuple(self._segments.word(places[j]) for j in readers),
        )
        own = [self._segments.slot(self._segments.own, side) for side in (0, 1)]
        self._remote = Remote.of(comm, places, own)
        self._sources = list(sources)
        self._sides = [
            message.elsewhere(own[side], [self._row(j, side) for j in sources]) for side in (0, 1)
        ]
        self._waits_for_readers = bool(readers)
        self._in_place = False
        self.start: Callable[[], object] = self._copy_and_start

    def _row(self, source: int, side: int) -> Array:
        """Return where the message of a source will be found: in its slot, or as received."""
        place = self._segments.places.get(source)
        if place is not None:
            return self._segments.slot(place, side)
        if self._remote is None:
            raise RuntimeError("a neighbour on another host that nobody else knows of")
        return self._remote.row(source, side)

    def in_place(self) -> tuple[list[Sequence[Message]], Callable[[], object] | None]:
        """Use the slots as buffers from now on, instead of copying to and from them."""
        if C is None:
            return super().in_place()
        self._in_place = True
        self.start = self._words.publish if self._remote is None else self._start
        if self._remote is None:
            self.finish = self._words.wait  # type: ignore[method-assign]
        prepare = self._words.wait_for_readers if self._waits_for_readers else None
        return [[side] for side in self._sides], prepare

    def outgoing(self) -> Sequence[Message]:
        return [self._next_side()] if self._in_place else self.messages

    def _next_side(self) -> Message:
        return self._sides[self._words.count & 1]

    def _copy_and_start(self) -> None:
        if self._waits_for_readers:
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

    def received_iterations(self, index: int) -> Array:
        count = self._words.count
        last = self._sides[(count - 1) & 1]
        words = [self._words_of_sources.get(j) for j in self._sources]
        return np.array(
            [
                -1 if word is not None and not reached(word, count) else header[0]
                for word, header in zip(words, last.headers, strict=True)
            ],
            dtype=np.int64,
        )

    def free(self) -> None:
        if self._remote is not None:
            self._remote.free()
        self._segments.free()


class Segments:
    """The shared window of the ranks of one host: of each, a word and two slots."""

    def __init__(self, comm: MPI.Intracomm, words: int) -> None:
        self._slot_bytes = 8 * words
        self._stride = -(-(BEFORE + self._slot_bytes) // LINE) * LINE
        size = LINE + 2 * self._stride
        host = comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.own = host.rank
        self.places = {rank: place for place, rank in enumerate(host.allgather(comm.rank))}
        """The number, on this host, of each rank that is there."""
        info = MPI.Info.Create({"alloc_shared_noncontig": "true"})  # each on pages of its own
        try:
            on_every_rank(comm, lambda: require_room(size * host.size))
            self.window = MPI.Win.Allocate_shared(size, 1, info, host)
        finally:
            info.Free()
            host.Free()
        self.window.Lock_all(MPI.MODE_NOCHECK)
        self._memory = [
            np.frombuffer(self.window.Shared_query(place)[0], np.uint8)[:size]
            for place in range(len(self.places))
        ]
        try:
            on_every_rank(comm, lambda: take_hold(self._memory[self.own]))
        except UserError:
            self.free()
            raise

    def word(self, place: int) -> Array:
        """Return the word of a rank: its count of exchanges, and how many ranks sleep on it."""
        return self._memory[place][:8].view(np.uint32)

    def slot(self, place: int, side: int) -> Array:
        """Return a slot of a rank, as the words of a message."""
        begin = LINE + side * self._stride + BEFORE
        return self._memory[place][begin : begin + self._slot_bytes].view(np.int64)

    def free(self) -> None:
        self.window.Unlock_all()
        self.window.Free()


def require_room(size: int) -> None:
    """Raise UserError unless as many bytes of shared memory are left on this host."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return  # MPI keeps its windows elsewhere
    left = found.f_bavail * found.f_frsize
    if left < size:
        raise UserError(no_room(f"needs {size / 1e6:,.1f} MB", left))


def take_hold(memory: Array) -> None:
    """Fill the memory with zeros; raise UserError if the host has no more.

    The kernel does it: where it finds no page it returns an error, while a store of this process
    would be the end of it (SIGBUS).
    """
    with open("/dev/zero", "rb", buffering=0) as zero:  # noqa: PTH123
        begin = 0
        while begin < memory.size:
            try:
                begin += os.readv(zero.fileno(), [memory[begin : begin + PIECE]])
            except OSError:
                raise UserError(no_room("needs more", 0)) from None


def no_room(need: str, left: float) -> str:
    """Return the message of an error."""
    return (
        f"exchange shared {need} of shared memory on {os.uname().nodename}, but {MEMORY} has "
        f"{left / 1e6:,.1f} MB left: enlarge it (docker run --shm-size), or take another exchange"
    )


class Remote:
    """The exchange with the neighbours on other hosts, with buffers for each of the two slots."""

    def __init__(
        self, comm: MPI.Intracomm, sources: list[int], targets: list[int], sends: Sequence[Array]
    ) -> None:
        self._places = {source: place for place, source in enumerate(sources)}
        self._receives = [np.zeros((len(sources), sends[0].size), np.int64) for _ in sends]
        self._comm = comm.Create_dist_graph_adjacent(sources, targets, reorder=False)
        self._sends = sends
        self._idle = not sources and not targets
        self._request: Any = None
        try:
            self._requests = [
                self._comm.Neighbor_allgather_init(send, receive)
                for send, receive in zip(sends, self._receives, strict=True)
            ]
        except (NotImplementedError, MPI.Exception):  # of MPI 4
            self._requests = []

    @classmethod
    def of(
        cls, comm: MPI.Distgraphcomm, here: dict[int, int], sends: Sequence[Array]
    ) -> "Remote | None":
        """Return the exchange with those who are not `here`; None if no rank has such neighbours.

        Collective: every rank calls it.
        """
        sources, targets = ([j for j in end if j not in here] for end in ends_of(comm))
        if not comm.allreduce(len(sources) + len(targets)):
            return None
        return cls(comm, sources, targets, sends)

    def row(self, source: int, side: int) -> Array:
        """Return where messages of a source arrive."""
        row: Array = self._receives[side][self._places[source]]
        return row

    def start(self, side: int) -> None:
        """Send that slot."""
        if self._idle:
            return
        if self._requests:
            self._request = self._requests[side]
            self._request.Start()
        else:
            send, receive = self._sends[side], self._receives[side]
            self._request = self._comm.Ineighbor_allgather(send, receive)

    def wait(self) -> None:
        """Wait until the messages of the last start have come and gone."""
        if not self._idle:
            self._request.Wait()

    def free(self) -> None:
        for request in self._requests:
            request.Free()
        self._comm.Free()


def ends_of(comm: MPI.Distgraphcomm) -> tuple[list[int], list[int]]:
    """Return the ranks that this one hears, and those that hear it."""
    sources, targets, _ = comm.Get_dist_neighbors()
    return list(sources), list(targets)
