"""Mixing over an unreliable channel, on a rank and in a stacked run."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..channels import Channel
from ..channels.draws import Draws
from ..channels.reception import Reception
from ..graphs.network import Arcs

if TYPE_CHECKING:
    from .node import Node

Array = NDArray[Any]


class VectorCount:
    """The number of vectors that a step has mixed so far: each has noise of its own."""

    def __init__(self) -> None:
        self._iteration = self._vectors = 0

    def add(self, t: int, vectors: int) -> int:
        """Count some more in step t, and return the number of those before them."""
        if t != self._iteration:
            self._iteration, self._vectors = t, 0
        first, self._vectors = self._vectors, self._vectors + vectors
        return first


class Received:
    """One result of a mix over a channel, pending until `wait()` returns it."""

    def __init__(self, pending: Any, made: Callable[[Mapping[int, Array]], Any]) -> None:
        self._pending = pending
        self._made = made

    def wait(self) -> Any:
        return self._made(self._pending.wait())


class AllReceived(tuple[Received, ...]):
    """One result per vector; with a single vector, `mix(z).wait()` works as well."""

    def wait(self) -> Any:
        (only,) = self
        return only.wait()


class ChannelMix:
    """The `mix` of a node whose channel is unreliable.

    The vectors of the neighbours come apart, by `mix.each`, and are added up here.
    """

    def __init__(self, node: "Node", channel: Channel, mix: Any, kinds: Sequence[str]) -> None:
        self._node = node
        self._each = mix.each
        self._kinds = kinds
        self._reception = Reception(Draws(channel), node.row, channel.noise > 0)
        self._count = VectorCount()
        self.compressed: Any = None
        """The function `mix.compressed`, which `Node` sets."""

    def __call__(self, *vectors: Array) -> AllReceived:
        return self._send(vectors, apart=False)

    def each(self, *vectors: Array) -> AllReceived:
        """Send the vectors in the same way; the results keep the neighbours' vectors apart."""
        return self._send(vectors, apart=True)

    def _send(self, vectors: tuple[Array, ...], apart: bool) -> AllReceived:
        pending = self._each(*vectors)
        t, kinds, reception = self._node.iteration, self._kinds, self._reception
        first = self._count.add(t, len(vectors))
        received = []
        for index, (each, vector) in enumerate(zip(pending, vectors, strict=True)):
            own = np.array(vector, vectors[0].dtype)  # the caller may change it before it waits
            kind = kinds[min(index, len(kinds) - 1)]
            made = (
                partial(reception.each, t, first + index, own)
                if apart
                else partial(reception.mixed, t, first + index, kind, own)
            )
            received.append(Received(each, made))
        return AllReceived(received)


class StackedChannel:
    """A channel among the nodes of a stacked run."""

    def __init__(self, channel: Channel, arcs: Arcs) -> None:
        self._rows = [arcs.row(i) for i in range(arcs.layers[0].nodes)]
        self._draws = draws = Draws(channel)
        self.noisy = channel.noise > 0
        self.receptions = [Reception(draws, row, self.noisy) for row in self._rows]
        self.count = VectorCount()

    def mixed(self, t: int, vector: int, kind: str, z: Array) -> Array:
        """Return a vector of all nodes mixed, as each of them would do it."""
        everyone = dict(enumerate(z))
        return np.stack(
            [
                each.mixed(t, vector, kind, own, everyone)
                for each, own in zip(self.receptions, z, strict=True)
            ]
        )

    def matrix(self, t: int, matrix: Array) -> Array:
        """Return the matrix of iteration t: the weights of what is lost stay with the receivers."""
        matrix = matrix.copy()
        for i, row in enumerate(self._rows):
            sources = row.layers[row.turns.at(t)].sources
            heard = self._draws.arrivals(t, i, sources)
            if heard.all():
                continue
            lost = np.array(sources)[~heard]
            for weight in matrix[i, lost]:
                matrix[i, i] += weight
            matrix[i, lost] = 0
        return matrix

    def active(self, t: int) -> Array:
        """Return which of the nodes compute and talk at iteration t."""
        return np.array([self._draws.active(t, row.node) for row in self._rows])
