"""The interface that `Node` and `StackedNode` share, and the order of the weights."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..graphs.network import LayerRow

Array = NDArray[Any]


class NodeLike(Protocol):
    """The part of `Node` and `StackedNode` that `engine.metrics` uses."""

    nodes: int
    iteration: int
    gradients: int

    @property
    def bytes_sent(self) -> Any: ...
    def mean(self, z: Array, everywhere: bool = True) -> Array | None: ...
    def gather(self, z: Array) -> Array | None: ...
    def broadcast_flag(self, flag: bool) -> bool: ...


def weights_in_order(
    node: int, layer: LayerRow, kinds: Sequence[str], dtype: np.dtype[Any]
) -> tuple[Array, int]:
    """Return the weights of each kind in rank order, and the index of the node's own weight."""
    place = sum(source < node for source in layer.sources)
    rows = [np.insert(layer.weights[kind], place, layer.own[kind]) for kind in kinds]
    return np.array(rows).astype(dtype), place
