"""The interface that `Node` and `StackedNode` share."""

from typing import Any, Protocol

from numpy.typing import NDArray

Array = NDArray[Any]


class NodeLike(Protocol):
    """The part of `Node` and `StackedNode` that `engine.metrics` uses."""

    nodes: int
    iteration: int

    @property
    def bytes_sent(self) -> Any: ...
    def mean(self, z: Array, everywhere: bool = True) -> Array | None: ...
    def gather(self, z: Array) -> Array | None: ...
    def broadcast_flag(self, flag: bool) -> bool: ...
