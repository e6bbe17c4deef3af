"""Clock synchronisation: each host's offset from root's clock, by the fastest of many ping-pongs.

It is measured at the start and at the end of a run, for clocks drift.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ..comm.collective import idle_barrier, waiting_for

Array = NDArray[Any]

PINGS = 30


@dataclass(frozen=True)
class Reading:
    """One comparison of clocks: at `time` of this rank's clock, root's showed `time + offset`.

    All in nanoseconds; `uncertainty` is half of the round trip.
    """

    time: int
    offset: int
    uncertainty: int


def read_clock(comm: MPI.Intracomm) -> Reading:
    """Compare this rank's clock with root's. Collective: every rank calls it.

    Ranks with the same clock, those of one host, leave it to the first of them. These compare
    along a binomial tree, so that the time grows with the logarithm of the number of hosts; the
    offsets from there to root add up, and so do the uncertainties.
    """
    with waiting_for(comm, "the other nodes to compare clocks"):
        host = comm.Split_type(MPI.COMM_TYPE_SHARED, comm.rank)
        clocks = host.allgather(clock_id())
        sharing = host.Split(clocks.index(clocks[host.rank]), comm.rank)
        first = sharing.rank == 0
        leaders = MPI.Intracomm(comm.Split(0 if first else MPI.UNDEFINED, comm.rank))
    offset = np.zeros(2, dtype=np.int64)
    if first:
        offset[:] = _offset_along_tree(leaders, comm)
        leaders.Free()
    idle_barrier(comm)  # the other ranks sleep: those that measure need a core each
    sharing.Bcast(offset)
    sharing.Free()
    host.Free()
    return Reading(perf_counter_ns(), *offset.tolist())


def clock_id() -> str:
    """Return what all processes with the clock of this one have in common.

    Time namespaces (Linux 5.6) have clocks of their own. Where nothing is known of them, every
    process counts as one with its own clock.
    """
    try:
        return str(Path("/proc/self/ns/time").readlink())
    except OSError:
        return f"process {os.getpid()}"


def _offset_along_tree(leaders: MPI.Intracomm, comm: MPI.Intracomm) -> tuple[int, int]:
    """Return offset from root's clock and uncertainty, by way of the leaders before this one.

    In each round the leaders that know their offset serve one more each.
    """
    known = np.zeros(2, dtype=np.int64)
    step = 1
    while step < leaders.size:
        if step <= leaders.rank < 2 * step:
            with waiting_for(comm, "another node to compare clocks"):
                best = _best_ping(leaders, leaders.rank - step)
                leaders.Recv(known, source=leaders.rank - step)
            # an offset within the uncertainty counts as 0
            small = abs(best.offset) <= best.uncertainty
            known += (0 if small else best.offset), best.uncertainty
        elif leaders.rank < step and leaders.rank + step < leaders.size:
            with waiting_for(comm, "another node to compare clocks"):
                _answer(leaders, leaders.rank + step)
                leaders.Send(known, dest=leaders.rank + step)
        step *= 2
    return int(known[0]), int(known[1])


def _answer(comm: MPI.Intracomm, rank: int) -> None:
    """Tell another rank the time of this one, as often as it asks."""
    word = np.zeros(1, dtype=np.int64)
    for _ in range(PINGS):
        comm.Recv(word, source=rank)
        word[0] = perf_counter_ns()
        comm.Send(word, dest=rank)


def _best_ping(comm: MPI.Intracomm, rank: int) -> Reading:
    """Return the comparison with another rank's clock that took the shortest time."""
    word = np.zeros(1, dtype=np.int64)
    return min((_ping(comm, word, rank) for _ in range(PINGS)), key=lambda r: r.uncertainty)


def _ping(comm: MPI.Intracomm, word: Array, rank: int) -> Reading:
    """Ask another rank for its time once."""
    sent = perf_counter_ns()
    comm.Send(word, dest=rank)
    comm.Recv(word, source=rank)
    back = perf_counter_ns()
    return Reading(back, int(word[0]) - (sent + back) // 2, (back - sent) // 2)


class Alignment:
    """The conversion from this rank's clock to root's, from readings at the start and the end."""

    def __init__(self, first: Reading, last: Reading) -> None:
        self._first = first
        elapsed = max(1, last.time - first.time)
        self.uncertainty = max(first.uncertainty, last.uncertainty)
        self.drift = (last.offset - first.offset) / elapsed  # ns per ns
        self.offset = first.offset

    def to_root(self, times: Array) -> Array:
        """Return times of this rank's clock (ns) in root's time."""
        drifted = self.drift * (times - self._first.time)
        return np.asarray(times + self.offset + np.rint(drifted).astype(np.int64))
