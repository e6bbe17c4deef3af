"""Ranks of one host, of whom the first one, the writer, writes a file for all of them."""

import contextlib
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import segments
from .collective import WatchedComm

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[Any]

PIECE = 1 << 24  # bytes per message: all that the writer holds of the others' parts


class HostGroup:
    """The ranks of one host. Making one is collective: every rank of `world` makes its own."""

    def __init__(self, world: "MPI.Intracomm") -> None:
        self._world = world
        self._comm = segments.split_by_host(world)  # in the order of the nodes
        nodes = np.empty(self._comm.size, np.int64)
        self._comm.Allgather(np.array([world.rank]), nodes)
        self.nodes: list[int] = nodes.tolist()
        self.is_writer = self._comm.rank == 0
        firsts = world.gather(self.nodes[0])
        self.writers: list[int] = sorted(set(firsts or ()))
        """On root: the first node of each host."""
        token = world.bcast(secrets.token_hex(8) if world.rank == 0 else None)
        self.name = f"{token}{self.nodes[0]:05d}"
        """A name that no other host and no other run has."""

    def send(self, part: memoryview) -> None:
        """Send this rank's part to the writer, which calls `receive` meanwhile."""
        self._count()
        with self._waiting("the first node of its host to save the state"):
            self._comm.Gather(np.array([len(part)]), None)
            for begin in range(0, len(part), PIECE):
                self._comm.Send(np.frombuffer(part[begin : begin + PIECE], np.uint8), dest=0)

    def receive(self, part: memoryview) -> tuple[list[int], Iterator[Any]]:
        """Return, on the writer, the lengths of all parts of the host, and an iterator over them.

        It yields pieces of at most PIECE bytes (its own part as it is), each valid until the next.
        """
        self._count()
        lengths = np.empty(self._comm.size, np.int64)
        with self._waiting("the other nodes of its host to save their state"):
            self._comm.Gather(np.array([len(part)]), lengths)
        return lengths.tolist(), self._pieces(part, lengths.tolist())

    def _pieces(self, part: memoryview, lengths: list[int]) -> Iterator[Any]:
        yield part
        buffer = np.empty(min(PIECE, max(lengths)), np.uint8)
        for source, length in enumerate(lengths[1:], 1):
            for begin in range(0, length, PIECE):
                piece = buffer[: min(PIECE, length - begin)]
                with self._waiting(f"the state of node {self.nodes[source]}"):
                    self._comm.Recv(piece, source=source)
                yield piece

    def free(self) -> None:
        """Free the communicator. Collective: every rank calls it."""
        self._comm.Free()

    def _count(self) -> None:
        """Count one wait, on the writer and on the others alike: the watchdog compares them."""
        if isinstance(self._world, WatchedComm):
            self._world.waits += 1

    @contextlib.contextmanager
    def _waiting(self, what: str) -> Iterator[None]:
        """Note what this rank waits for, but not while the writer writes: that is work."""
        if not isinstance(self._world, WatchedComm):
            yield
            return
        self._world.waiting = what
        try:
            yield
        finally:
            self._world.waiting = None
