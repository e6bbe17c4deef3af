"""Segments in shared memory: what the ranks of one host write for each other to read."""

import os
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ..errors import UserError
from .collective import on_every_rank

Array = NDArray[Any]

LINE = 64  # bytes of a cache line
BEFORE = LINE - 16  # bytes before a slot, so that the vectors after its header begin with a line
MEMORY = "/dev/shm"
SPARE = 1 << 14  # bytes that MPI may add to the memory of each rank
PIECE = 1 << 24  # bytes per call that takes hold of memory


class Segments:
    """The shared window of the ranks of one host: of each, a word and two slots."""

    def __init__(self, comm: MPI.Intracomm, words: int) -> None:
        self._slot_bytes = 8 * words
        self._stride = -(-(BEFORE + self._slot_bytes) // LINE) * LINE
        size = LINE + 2 * self._stride
        host = split_by_host(comm)
        ranks = host.allgather(comm.rank)
        self.freed = False
        info = MPI.Info.Create({"alloc_shared_noncontig": "true"})  # each on pages of its own
        try:
            on_every_rank(comm, lambda: require_room((size + SPARE) * host.size))
            self.window = MPI.Win.Allocate_shared(size, 1, info, host)
        finally:
            info.Free()
            host.Free()
        self.window.Lock_all(MPI.MODE_NOCHECK)
        self._memory = {
            rank: np.asarray(self.window.Shared_query(place)[0])[:size]
            for place, rank in enumerate(ranks)
        }
        try:
            on_every_rank(comm, lambda: take_hold(self._memory[comm.rank]))
        except UserError:
            self.free()
            raise

    def __contains__(self, rank: object) -> bool:
        """Return whether a rank is on this host."""
        return rank in self._memory

    def word(self, rank: int) -> Array:
        """Return the word of a rank: its count of exchanges, and how many ranks sleep on it."""
        return self._memory[rank][:8].view(np.uint32)

    def slot(self, rank: int, side: int) -> Array:
        """Return a slot of a rank, as the words of a message."""
        begin = LINE + side * self._stride + BEFORE
        return self._memory[rank][begin : begin + self._slot_bytes].view(np.int64)

    def free(self) -> None:
        """Give the memory back. Collective: every rank of this host calls it."""
        self.freed = True
        self.window.Unlock_all()
        self.window.Free()


def split_by_host(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Return a communicator of the ranks on this host. Collective: every rank calls it."""
    return MPI.Intracomm(comm.Split_type(MPI.COMM_TYPE_SHARED))


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
                begin += os.readv(zero.fileno(), [memory.data[begin : begin + PIECE]])
            except OSError:
                raise UserError(no_room("needs more", 0)) from None


def no_room(need: str, left: float) -> str:
    """Return the message of an error."""
    return (
        f"it {need} of shared memory on {os.uname().nodename}, but {MEMORY} has "
        f"{left / 1e6:,.1f} MB left: enlarge it (docker run --shm-size), or take another exchange"
    )
