"""Measurements between hosts: latency and bandwidth of each pair, and the offsets of their clocks.

One rank per host takes part; while two of them measure, all others sleep.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mpi4py import MPI

MOST_HOSTS = 16  # a pair takes about 0.1 s, and 16 hosts have 120 of them
PINGS = 40
LARGE = 1 << 20  # bytes, for the bandwidth
BUDGET = 0.1  # seconds for the bandwidth of a pair
APART = 5.0  # times slower than others: worth a warning


@dataclass(frozen=True)
class Pair:
    """Measurement between two hosts, or within one by two of its ranks."""

    hosts: tuple[str, str]
    latency: float  # seconds, of a message of 8 bytes
    bandwidth: float  # bytes per second
    offset: float  # seconds by which the second host's clock is ahead
    uncertainty: float  # of the offset


def pairs_of(hosts: list[str]) -> list[tuple[int, int]]:
    """Return the ranks that measure: one pair for each two hosts, and one within each host."""
    first: dict[str, int] = {}
    second: dict[str, int] = {}
    for rank, host in enumerate(hosts):
        (second.setdefault if host in first else first.setdefault)(host, rank)
    chosen = list(first)[:MOST_HOSTS]
    within = [(first[host], second[host]) for host in chosen if host in second]
    return within + [
        (first[a], first[b]) for place, a in enumerate(chosen) for b in chosen[place + 1 :]
    ]


def measure_pairs(
    comm: "MPI.Intracomm", hosts: list[str], wait: "Callable[[MPI.Intracomm], None]"
) -> list[Pair]:
    """Measure all pairs and return them on root. Collective: every rank calls it.

    `wait` is a barrier in which ranks sleep.
    """
    found = []
    for a, b in pairs_of(hosts):
        result = None
        if comm.rank == a:
            result = _lead(comm, b)
        elif comm.rank == b:
            _follow(comm, a)
        if a != 0 and comm.rank == a:
            comm.send(result, dest=0)
        if comm.rank == 0:
            latency, bandwidth, offset, uncertainty = result or comm.recv(source=a)
            found.append(Pair((hosts[a], hosts[b]), latency, bandwidth, offset, uncertainty))
        wait(comm)
    return found


def _lead(comm: "MPI.Intracomm", other: int) -> tuple[float, float, float, float]:
    """Return latency, bandwidth, clock offset and its uncertainty, as seen from this rank."""
    word, readings = np.zeros(1), []
    for _ in range(PINGS):
        sent, began = time.time(), time.perf_counter()
        comm.Send(word, dest=other)
        comm.Recv(word, source=other)
        trip = time.perf_counter() - began
        readings.append((trip, float(word[0]) - (sent + trip / 2)))
    trip, offset = min(readings)
    latency = statistics.median(trip for trip, _ in readings) / 2
    # as large a message as the budget allows: on a slow link a megabyte takes seconds
    size = 4096
    while 8 * (seconds := _send(comm, other, size)) < BUDGET and size < LARGE:
        size *= 8
    times = [seconds]
    while sum(times) < BUDGET and len(times) < PINGS:
        times.append(_send(comm, other, size))
    comm.Send(np.zeros(1), dest=other)  # the end
    return latency, size / max(min(times) - latency, 1e-9), offset, trip / 2


def _send(comm: "MPI.Intracomm", other: int, size: int) -> float:
    """Send that many bytes; return the seconds until the other rank has answered."""
    word, data = np.full(1, float(size)), np.zeros(size, dtype=np.uint8)
    comm.Send(word, dest=other)
    began = time.perf_counter()
    comm.Send(data, dest=other)
    comm.Recv(word, source=other)
    return time.perf_counter() - began


def _follow(comm: "MPI.Intracomm", other: int) -> None:
    word = np.zeros(1)
    for _ in range(PINGS):
        comm.Recv(word, source=other)
        word[0] = time.time()
        comm.Send(word, dest=other)
    while True:
        comm.Recv(word, source=other)
        if not word[0]:
            return
        comm.Recv(np.empty(int(word[0]), dtype=np.uint8), source=other)
        comm.Send(word, dest=other)


def slow_hosts(pairs: list[Pair]) -> dict[str, str]:
    """Return the hosts whose links are slower than most others, with what is slow about them.

    A host counts if all its links to other hosts are that slow.
    """
    between = [pair for pair in pairs if pair.hosts[0] != pair.hosts[1]]
    hosts = list(dict.fromkeys(host for pair in between for host in pair.hosts))
    if len(hosts) < 3:
        return {}
    # a quartile: of three hosts, one that is slow makes two of the three links slow
    quarter = len(between) // 4
    latency = sorted(pair.latency for pair in between)[quarter]
    bandwidth = sorted((pair.bandwidth for pair in between), reverse=True)[quarter]
    found = {}
    for host in hosts:
        own = [pair for pair in between if host in pair.hosts]
        late = min(pair.latency for pair in own) / latency
        narrow = bandwidth / max(pair.bandwidth for pair in own)
        if late > APART:
            found[host] = f"the latency of all its links is {late:.0f} times that of the others"
        elif narrow > APART:
            found[host] = f"the bandwidth of all its links is 1/{narrow:.0f} of that of the others"
    return found
