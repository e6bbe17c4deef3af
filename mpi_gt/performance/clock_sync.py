"""Clock synchronisation: each rank's offset from root's clock, by the fastest of many ping-pongs.

It is measured at the start and at the end of a run, for clocks drift.
"""

from dataclasses import dataclass
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
    """Compare this rank's clock with root's. Collective: every rank calls it; they take turns."""
    mine = Reading(perf_counter_ns(), 0, 0)
    word = np.zeros(1, dtype=np.int64)
    for rank in range(1, comm.size):
        if comm.rank == 0:
            with waiting_for(comm, f"node {rank} to compare clocks"):
                for _ in range(PINGS):
                    comm.Recv(word, source=rank)
                    word[0] = perf_counter_ns()
                    comm.Send(word, dest=rank)
        elif comm.rank == rank:
            with waiting_for(comm, "root to compare clocks"):
                best = min((_ping(comm, word) for _ in range(PINGS)), key=lambda r: r.uncertainty)
            # ranks on one host share a clock: an offset within the uncertainty counts as 0
            small = abs(best.offset) <= best.uncertainty
            mine = Reading(best.time, 0 if small else best.offset, best.uncertainty)
        idle_barrier(comm)  # the other ranks sleep: the two that measure need a core each
    return mine


def _ping(comm: MPI.Intracomm, word: Array) -> Reading:
    """Ask root for its time once."""
    sent = perf_counter_ns()
    comm.Send(word, dest=0)
    comm.Recv(word, source=0)
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
