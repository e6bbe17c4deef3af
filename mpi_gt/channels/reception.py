"""Reception: what a node makes of the vectors of its sources, after the losses of a channel."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..graphs.network import LayerRow, Row
from ..kernels.reference import WeightedSum
from .draws import Draws

Array = NDArray[Any]


class Reception:
    """One node's end of a channel: it leaves out what is lost, and adds noise to the rest."""

    def __init__(self, draws: Draws, row: Row, noise: bool) -> None:
        self._draws = draws
        self._row = row
        self._noise = noise
        self._weights: dict[tuple[int, str], tuple[Array, int]] = {}

    def mixed(
        self, t: int, vector: int, kind: str, own: Array, received: Mapping[int, Array]
    ) -> Array:
        """Return the weighted sum of iteration t, added up in rank order as without a channel.

        The node's own vector has the weights of all that is lost. `vector` is its number among
        those that the step mixes, `kind` that of the matrix.
        """
        number = self._row.turns.at(t)
        layer = self._row.layers[number]
        heard = self._draws.arrivals(t, self._row.node, layer.sources)
        weights, place = self._weights_of(number, kind)
        if not heard.all():
            weights, place = without_lost(weights, place, heard)
        sources = [j for j, arrives in zip(layer.sources, heard.tolist(), strict=True) if arrives]
        rows = self._rows(t, vector, sources, own, received)
        return WeightedSum(weights.astype(own.dtype), place, own.size)(rows, own)

    def each(
        self, t: int, vector: int, own: Array, received: Mapping[int, Array]
    ) -> dict[int, Array]:
        """Return the vectors by source; in place of each that is lost, a copy of the node's own."""
        sources = self._row.layers[self._row.turns.at(t)].sources
        heard = self._draws.arrivals(t, self._row.node, sources)
        here = [j for j, arrives in zip(sources, heard.tolist(), strict=True) if arrives]
        rows = dict(zip(here, self._rows(t, vector, here, own, received), strict=True))
        return {j: rows[j].reshape(own.shape) if j in rows else own.copy() for j in sources}

    def _rows(
        self, t: int, vector: int, sources: Sequence[int], own: Array, received: Mapping[int, Array]
    ) -> Array:
        """Return the vectors of these sources as they arrive, one row for each."""
        rows = np.empty((len(sources), own.size), own.dtype)
        for row, source in enumerate(sources):
            rows[row] = received[source].reshape(-1)
        if self._noise:
            rows += self._draws.noise(t, self._row.node, sources, vector, own.size).astype(
                own.dtype
            )
        return rows

    def _weights_of(self, number: int, kind: str) -> tuple[Array, int]:
        """Return the weights of a layer in rank order, and the index of the node's own."""
        made = self._weights.get((number, kind))
        if made is None:
            made = self._weights[number, kind] = in_order(
                self._row.node, self._row.layers[number], kind
            )
        return made


def in_order(node: int, layer: LayerRow, kind: str) -> tuple[Array, int]:
    """Return the weights of a node in rank order, and the index of its own."""
    place = sum(source < node for source in layer.sources)
    return np.insert(layer.weights[kind], place, layer.own[kind]), place


def without_lost(weights: Array, place: int, heard: Array) -> tuple[Array, int]:
    """Return the weights of what is heard, with those of the rest added to the node's own.

    They are added one after the other, so that the bits are the same wherever it is done.
    """
    kept = np.insert(heard, place, True)
    own = weights[place]
    for lost in weights[~kept]:
        own = own + lost
    weights = weights.copy()
    weights[place] = own
    return weights[kept], int(np.count_nonzero(heard[:place]))
