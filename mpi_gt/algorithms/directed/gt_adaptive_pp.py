"""Algorithm 1 on directed graphs: estimates are pulled, trackers are pushed."""

from dataclasses import dataclass
from typing import ClassVar

from ..base import Graph
from ..gt_adaptive import GTAdaptive


@dataclass(frozen=True)
class GTAdaptivePP(GTAdaptive):
    """Algorithm 1 in push-pull form, for directed graphs.

        m+ = b1 m + (1 - b1) s
        v+ = Clip(b2 v + (1 - b2) s², vmin, vmax)
        x+ = Rx - a m+ / sqrt(v+)
        s+ = Cs + g+ - g

    The rows of R (pull) and the columns of C (push) sum to one. A node's s tends to a multiple of
    the mean gradient, by a factor of its own that the division by sqrt(v) cancels. The start is
    that of gt-adaptive.

    Options:
        beta1 in [0, 1): decay rate b1 of the momentum m
        beta2 in (0, 1): decay rate b2 of v
        vmin in (0, 1]: least entry of v
        vmax >= 1: largest entry of v
    """

    display_name: ClassVar[str] = "Algorithm 1, push-pull"
    graph: ClassVar[Graph] = "directed"
    kinds: ClassVar[tuple[str, ...]] = ("pull", "push")
