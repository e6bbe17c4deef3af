"""The compressor and the gossip step of methods with compressed messages."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from ...compressors import Compressor, make_compressor, require_fit
from ...compressors.qsgd import Qsgd
from ...compressors.top import Top
from ...user_classes import construct
from ..base import Algorithm, Array, Graph, require

Method = TypeVar("Method", bound="Compressed")


@dataclass(frozen=True)
class Compressed(Algorithm):
    """A method whose messages are compressed.

    Neighbours know a surrogate h of each other's vector. A node sends C(x - h), which all of them
    add to h; so does the node itself to what it knows of the sum of A_ij h_j. That sum holds for
    these weights only: the graph must not change.

    Options:
        compress: none, bfloat16, float16, float32, qsgd, sign, top, or a class of yours
        bits: 2, 4 or 8 per entry, of qsgd
        block >= 1: entries that share a scale, of qsgd
        k > 0: the share of the entries that top sends, or from 1 on their number
        gamma in [0, 1]: size of a gossip step; 0 for the delta of the compressor
    """

    compress: str = "qsgd"
    bits: int = 4
    block: int = 64
    k: float = 0.1
    gamma: float = 0.0

    graph: ClassVar[Graph] = "static"

    def __post_init__(self) -> None:
        super().__post_init__()
        Qsgd(self.bits, self.block), Top(self.k)  # checked, whichever is used
        require(
            0 <= self.gamma <= 1,
            f"gamma must be in (0, 1], or 0 for the compressor's own, not {self.gamma}",
        )
        _ = self.compressor

    @property
    def compressor(self) -> Compressor:
        """The compressor of all messages, made anew at each call.

        Not kept: the attributes of an algorithm are its parameters, by which a run is identified.
        """
        options = {"bits": self.bits, "block": self.block, "k": self.k}
        return make_compressor(self.compress, options)

    def fitted(self: Method, x: Array, label: str) -> Method:
        compressor = self.compressor
        require_fit(compressor, x.shape, x.dtype, label)
        own = construct(label, False, lambda: self.gamma or compressor.delta(x.shape[1]))
        return replace(self, gamma=own)

    def gossip(self, x: Array) -> float:
        """Return gamma, for vectors like x."""
        return self.gamma or self.compressor.delta(x.shape[-1])


def following(surrogate: Array, weighted: Array, own: Array, pending: Any) -> tuple[Array, Array]:
    """Return the next surrogate of this node, and the next weighted sum of all surrogates."""
    return surrogate + own, weighted + pending.wait()
