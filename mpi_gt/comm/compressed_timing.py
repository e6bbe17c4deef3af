"""Compressed exchanges outside of a run, to check and to time stage by stage."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..compressors import Compressor
from ..problems.base import Place
from .compression import STAGES, Encoder
from .plan import CompressedPlan

if TYPE_CHECKING:
    from .exchange import Exchange
    from .node import Node

Array = NDArray[Any]


class StagedPlan(CompressedPlan):
    """A plan whose stages are called and timed one by one; nothing is added up."""

    def exchange_once(self, vectors: list[Array]) -> tuple[float, float, float]:
        """Exchange the vectors; return the seconds of STAGES. Collective: every rank calls it.

        Copying the vectors into the plan is not timed: without compression it is done as well.
        """
        clock = time.perf_counter
        self._fill(*vectors)
        began = clock()
        self._encode()
        encoded = clock()
        self._exchange.start()
        wire, decode, last = 0.0, 0.0, encoded
        for index in range(len(self._messages)):
            self._exchange.finish(index)
            arrived = clock()
            self._decode(index)
            decoded = clock()
            wire, decode, last = wire + arrived - last, decode + decoded - arrived, decoded
        return encoded - began, wire, decode

    def received(self) -> list[Array]:
        """Return what was decoded of the neighbours' vectors: for each, (neighbours, seeds, k)."""
        return self._theirs


class CompressedTimer:
    """One compressed exchange of two vectors of `payload` bytes, as a step sends x and s.

    It is used like an ExchangeTimer; `stages` then has a row of seconds by STAGES for each call of
    `seconds`. On a changing graph the layers take turns.
    """

    def __init__(
        self, node: "Node", exchange_class: "type[Exchange]", payload: int, compressor: Compressor
    ) -> None:
        self._node = node
        self._compressor = compressor
        self._width = max(1, payload // 16)
        self._t = 0
        self.stages: list[tuple[float, float, float]] = []
        own = node.row.node
        self._vectors = self._pattern(own, 1)
        usual, node.exchange_class = node.exchange_class, exchange_class
        try:
            self._plans = [
                StagedPlan(node, number, self._vectors, list(layer.weights)[:1], self._encoder(own))
                for number, layer in enumerate(node.row.layers)
            ]
        finally:
            node.exchange_class = usual

    def _encoder(self, node: int) -> Encoder:
        return Encoder(self._compressor, Place(node=node, nodes=self._node.nodes, seeds=(0,)))

    def _pattern(self, node: int, mark: int) -> list[Array]:
        generator = np.random.Generator(np.random.Philox(key=[mark, node]))
        return [generator.standard_normal((1, self._width)) for _ in range(2)]

    @property
    def sent(self) -> int:
        """The bytes that go to each neighbour, without header and padding."""
        return self._plans[0].payload

    @property
    def sources(self) -> float:
        """The number of messages that are decoded, on the average over the layers."""
        return sum(len(plan.row.sources) for plan in self._plans) / len(self._plans)

    def check(self, mark: int) -> None:
        """Exchange known vectors; raise RuntimeError where others are decoded than were sent.

        Collective: every rank calls it. Calls with different marks send different numbers.
        """
        node = self._node
        node.iteration = mark
        for plan in self._plans:
            plan.exchange_once(self._pattern(node.row.node, mark))
        for plan in self._plans:
            for place, source in enumerate(plan.row.sources):
                encoder = self._encoder(source)
                for index, vector in enumerate(self._pattern(source, mark)):
                    made = plan.received()[index][place]
                    if made.tobytes() != encoder.received(mark, index, vector).tobytes():
                        raise RuntimeError(
                            f"node {node.row.node} decoded other numbers of node {source} than "
                            "that node sent"
                        )

    def seconds(self, count: int) -> float:
        """Return this rank's mean time of `count` exchanges on each layer, all stages together.

        Collective: every rank calls it.
        """
        spent = np.zeros(len(STAGES))
        for _ in range(count):
            self._t += 1  # every exchange has random numbers of its own, as in a run
            self._node.iteration = self._t
            for plan in self._plans:
                spent += plan.exchange_once(self._vectors)
        encode, wire, decode = (spent / (count * len(self._plans))).tolist()
        self.stages.append((encode, wire, decode))
        return encode + wire + decode

    def free(self) -> None:
        for plan in self._plans:
            plan.free()
