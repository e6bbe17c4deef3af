"""The ranks' clocks against root's: an offset from the quickest of many ping-pongs, twice."""

from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ..comm.collective import idle_barrier

Array = NDArray[Any]

PINGS = 30


@dataclass(frozen=True)
class Reading:
    """At `time` of the own clock, root's showed `offset` more, give or take `uncertainty` (ns)."""

    time: int
    offset: int
    uncertainty: int


def read_clock(comm: MPI.Intracomm) -> Reading:
    """Compare this rank's clock with root's. Every rank calls it; they take turns."""
    mine = Reading(perf_counter_ns(), 0, 0)
    word = np.zeros(1, dtype=np.int64)
    for rank in range(1, comm.size):
        if comm.rank == 0:
            for _ in range(PINGS):
                comm.Recv(word, source=rank)
                word[0] = perf_counter_ns()
                comm.Send(word, dest=rank)
        elif comm.rank == rank:
            best = None
            for _ in range(PINGS):
                sent = perf_counter_ns()
                comm.Send(word, dest=0)
                comm.Recv(word, source=0)
                back = perf_counter_ns()
                reading = Reading(back, int(word[0]) - (sent + back) // 2, (back - sent) // 2)
                if best is None or reading.uncertainty < best.uncertainty:
                    best = reading
            assert best is not None
            # on one host all clocks are the same: what cannot be told from 0 is 0
            small = abs(best.offset) <= best.uncertainty
            mine = Reading(best.time, 0 if small else best.offset, best.uncertainty)
        idle_barrier(comm)  # asleep: the two that measure must not wait for a core
    return mine


class Alignment:
    """From the own clock to root's, by what was read at the start and at the end."""

    def __init__(self, first: Reading, last: Reading) -> None:
        self._first = first
        elapsed = max(1, last.time - first.time)
        self.uncertainty = max(first.uncertainty, last.uncertainty)
        self.drift = (last.offset - first.offset) / elapsed  # ns a ns
        self.offset = first.offset

    def to_root(self, times: Array) -> Array:
        """Times of the own clock (ns) as root's clock would have shown them."""
        drifted = self.drift * (times - self._first.time)
        return np.asarray(times + self.offset + np.rint(drifted).astype(np.int64))
