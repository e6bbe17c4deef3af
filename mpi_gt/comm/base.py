"""The interface that `Node` and `StackedNode` share, and the order of the weights."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..graphs import Row

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


def weights_in_order(row: Row, dtype: np.dtype[Any]) -> tuple[Array, int]:
    """Return the weights of the row in rank order, and the index of the node's own weight."""
    place = sum(neighbour < row.node for neighbour in row.neighbours)
    return np.insert(row.weights, place, row.own).astype(dtype), place
