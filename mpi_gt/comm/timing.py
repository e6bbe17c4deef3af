"""Exchanges outside of a run, on messages of a given size: to check, to time and to choose one."""

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ..errors import UserError
from ..memory import SMALL, require_memory, show_bytes
from .collective import first_of_all, on_every_rank, place_on_host
from .exchange import EXCHANGES
from .message import HEADER_WORDS, Exchange, Message
from .node import Node

Array = NDArray[Any]

AUTO_CANDIDATES = ("neighbor", "persistent", "nonblocking", "p2p", "persistent-p2p", "shared")
"""The exchanges that `--exchange auto` chooses from; the others exist to be measured."""


class ExchangeTimer:
    """One exchange of two vectors, `payload` bytes together, as a step sends x and s.

    On a changing graph the layers take turns.
    """

    def __init__(self, node: Node, exchange_class: type[Exchange], payload: int) -> None:
        self._node = node
        counts = (1, 1) if exchange_class.separate else (2,)
        shape, double = (max(1, payload // 16),), np.dtype(np.float64)
        self._layers = [
            (row, [Message(len(row.sources), [shape] * count, double) for count in counts])
            for row in node.row.layers
        ]
        self._exchanges: list[Exchange] = []
        try:
            for comm, (row, messages) in zip(node.graph_comms, self._layers, strict=True):
                self._exchanges.append(exchange_class(comm, messages, row))
        except UserError:  # on all ranks: there is no room for another layer
            self.free()
            raise
        self._indices = range(len(counts))

    def check(self, mark: int) -> None:
        """Exchange recognisable numbers; raise RuntimeError where others arrive than were sent.

        Collective: every rank calls it. Calls with different marks send different numbers.
        """
        for (row, messages), exchange in zip(self._layers, self._exchanges, strict=True):
            for index, message in enumerate(messages):
                message.send[:] = self._pattern(self._node.row.node, mark, index, message)
                message.receive[:] = -1
            exchange.start()
            for index in self._indices:
                exchange.finish(index)
            for index, message in enumerate(messages):
                for received, source in zip(message.receive, row.sources, strict=True):
                    if not np.array_equal(received, self._pattern(source, mark, index, message)):
                        raise RuntimeError(
                            f"node {self._node.row.node} received other numbers from node "
                            f"{source} than that node sent"
                        )

    def _pattern(self, node: int, mark: int, index: int, message: Message) -> Array:
        size = message.send.size - HEADER_WORDS
        words = np.arange(size, dtype=np.int64) * (mark + 1) + 1000003 * node + index
        return np.concatenate([np.array([mark, node], dtype=np.int64), words])

    def use_in_place(self) -> None:
        """Time from now on what a run does: without copies, where an exchange has its own buffers.

        What arrives can no longer be checked.
        """
        for exchange in self._exchanges:
            exchange.in_place()

    def seconds(self, count: int) -> float:
        """Return this rank's mean time of `count` exchanges in a row, on each layer.

        Collective: every rank calls it.
        """
        indices = self._indices
        calls = [(exchange.start, exchange.finish) for exchange in self._exchanges]
        began = time.perf_counter()
        for _ in range(count):
            for start, finish in calls:
                start()
                for index in indices:
                    finish(index)
        return (time.perf_counter() - began) / (count * len(calls))

    def free(self) -> None:
        for exchange in self._exchanges:
            exchange.free()


def unavailable_reason(
    node: Node, exchange_class: type[Exchange], trial: bool = True, payload: int = 16
) -> str | None:
    """Return why this machine cannot do the exchange of `payload` bytes, or None if it can.

    Collective: every rank calls it, and all get the same answer. With `trial` one exchange is made
    and checked; without, only its buffers and requests are.
    """
    reason = None
    try:
        _require_room(node, exchange_class, payload)
        timer = ExchangeTimer(node, exchange_class, payload)
        if trial:
            timer.check(1)
        timer.free()
    except (NotImplementedError, MPI.Exception) as error:
        reason = f"this MPI library lacks a call: {_text_of(error, exchange_class.needs)}"
    except UserError as error:  # there is no room for it
        reason = str(error)
    return first_of_all(node.world, reason)


def _require_room(node: Node, exchange_class: type[Exchange], payload: int) -> None:
    """Raise UserError if messages from every rank to every rank do not fit into memory.

    Collective: every rank calls it.
    """
    size = node.nodes * payload
    if exchange_class.to_all and size * node.nodes >= SMALL:
        _, ranks_here = place_on_host(node.world)
        what = f"a message of {show_bytes(payload)} from each of {node.nodes} ranks to every rank"
        instead = "take an exchange with the neighbours only"
        on_every_rank(node.world, lambda: require_memory(what, size, ranks_here, instead))


def _text_of(error: Exception, needs: str = "") -> str:
    """Return what the error says, else what the exchange needs; some errors have no text."""
    text = error.Get_error_string() if isinstance(error, MPI.Exception) else str(error)
    return text.strip() or needs or type(error).__name__


def slowest(node: Node, seconds: Iterable[float]) -> Array:
    """Return, for each time, the largest over all ranks. Collective: every rank calls it."""
    times = np.array(list(seconds))
    node.world.Allreduce(MPI.IN_PLACE, times, op=MPI.MAX)
    return times


def fastest_exchange(
    node: Node, payload: int, rounds: int = 5, count: int = 10
) -> tuple[str, dict[str, float], dict[str, str]]:
    """Return the fastest of AUTO_CANDIDATES, the time of each, and why others are unavailable.

    Collective: every rank calls it, and all get the same answer.
    """
    missing: dict[str, str] = {}
    timers: dict[str, ExchangeTimer] = {}
    for name in AUTO_CANDIDATES:
        reason = unavailable_reason(node, EXCHANGES[name], payload=payload)
        if reason is None:
            timers[name] = ExchangeTimer(node, EXCHANGES[name], payload)
            timers[name].use_in_place()
            timers[name].seconds(3)
        else:
            missing[name] = reason
    # every round times all exchanges: a disturbance of the machine then hits all of them alike
    samples = [
        slowest(node, (timer.seconds(count) for timer in timers.values())) for _ in range(rounds)
    ]
    medians = np.median(samples, axis=0)
    for timer in timers.values():
        timer.free()
    seconds = dict(zip(timers, medians.tolist(), strict=True))
    return min(seconds, key=seconds.__getitem__), seconds, missing


def choose_exchange(node: Node, auto: bool, payload: int) -> dict[str, Any]:
    """Set the fastest exchange if `auto`, else require the given one; return the facts of it.

    Collective: every rank calls it.
    """
    if auto:
        chosen, seconds, missing = fastest_exchange(node, payload)
        node.exchange_class = EXCHANGES[chosen]
        return {"name": chosen, "auto": seconds, "missing": missing}
    name = next(name for name, each in EXCHANGES.items() if each is node.exchange_class)
    reason = unavailable_reason(node, node.exchange_class, trial=False, payload=payload)
    if reason is not None:
        raise UserError(f"exchange {name} cannot be used here: {reason}")
    return {"name": name}
