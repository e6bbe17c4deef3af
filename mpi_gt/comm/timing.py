"""One exchange by itself, on a given number of bytes: to be checked, timed and chosen."""

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from .exchange import EXCHANGES, HEADER_WORDS, Exchange, Message
from .node import Node

Array = NDArray[Any]

SENSIBLE = ("neighbor", "persistent", "nonblocking", "p2p", "persistent-p2p")
"""What `--exchange auto` chooses from: the others are there to be measured."""


class Rig:
    """Buffers and requests for two vectors of `payload` bytes together, as a step sends x and s."""

    def __init__(self, node: Node, way: type[Exchange], payload: int) -> None:
        self._node = node
        counts = (1, 1) if way.separate else (2,)
        shape, double = (max(1, payload // 16),), np.dtype(np.float64)
        degree = len(node.row.neighbours)
        self._messages = [Message(degree, count, shape, double) for count in counts]
        self._exchange = way(node.comm, self._messages)
        self._indices = range(len(counts))

    def check(self, mark: int) -> None:
        """One exchange of recognisable numbers; an error where something else arrives."""
        for index, message in enumerate(self._messages):
            message.send[:] = self._pattern(self._node.row.node, mark, index, message)
            message.receive[:] = -1
        self._once()
        for index, message in enumerate(self._messages):
            for row, neighbour in zip(message.receive, self._node.row.neighbours, strict=True):
                if not np.array_equal(row, self._pattern(neighbour, mark, index, message)):
                    raise RuntimeError(
                        f"node {self._node.row.node} received something else from node "
                        f"{neighbour} than was sent"
                    )

    def _pattern(self, node: int, mark: int, index: int, message: Message) -> Array:
        size = message.send.size - HEADER_WORDS
        words = np.arange(size, dtype=np.int64) * (mark + 1) + 1000003 * node + index
        return np.concatenate([np.array([mark, node], dtype=np.int64), words])

    def _once(self) -> None:
        self._exchange.start()
        for index in self._indices:
            self._exchange.finish(index)

    def seconds(self, count: int) -> float:
        """The mean time of `count` exchanges in a row, as this rank saw it."""
        start, finish, indices = self._exchange.start, self._exchange.finish, self._indices
        began = time.perf_counter()
        for _ in range(count):
            start()
            for index in indices:
                finish(index)
        return (time.perf_counter() - began) / count

    def free(self) -> None:
        self._exchange.free()


def obstacle(node: Node, way: type[Exchange], trial: bool = True) -> str | None:
    """Why this MPI library cannot exchange in that way, the same on all ranks; None if it can.

    Without a trial only what is made before the first exchange is looked at.
    """
    reason = None
    try:
        rig = Rig(node, way, 16)
        if trial:
            rig.check(1)
        rig.free()
    except (NotImplementedError, MPI.Exception) as error:
        reason = f"this MPI library lacks a call: {error or type(error).__name__}"
    return next(filter(None, node.world.allgather(reason)), None)


def slowest(node: Node, seconds: Iterable[float]) -> Array:
    """Each time as the slowest rank saw it, on every rank the same."""
    times = np.array(list(seconds))
    node.world.Allreduce(MPI.IN_PLACE, times, op=MPI.MAX)
    return times


def fastest(
    node: Node, payload: int, rounds: int = 5, count: int = 10
) -> tuple[str, dict[str, float], dict[str, str]]:
    """The quickest of the sensible exchanges, the times of each, and why some are missing."""
    missing: dict[str, str] = {}
    rigs: dict[str, Rig] = {}
    for name in SENSIBLE:
        reason = obstacle(node, EXCHANGES[name])
        if reason is None:
            rigs[name] = Rig(node, EXCHANGES[name], payload)
            rigs[name].seconds(3)
        else:
            missing[name] = reason
    # one after the other in each round: what disturbs the machine meanwhile disturbs all of them
    samples = [slowest(node, (rig.seconds(count) for rig in rigs.values())) for _ in range(rounds)]
    medians = np.median(samples, axis=0)
    for rig in rigs.values():
        rig.free()
    seconds = dict(zip(rigs, medians.tolist(), strict=True))
    return min(seconds, key=seconds.__getitem__), seconds, missing
