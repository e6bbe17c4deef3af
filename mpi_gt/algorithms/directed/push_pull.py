"""Gradient tracking on directed graphs: estimates are pulled, trackers are pushed."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from ..base import Graph
from ..gt import GradientTracking


@dataclass(frozen=True)
class PushPull(GradientTracking):
    """Push-pull gradient tracking on directed graphs (Pu, Shi, Xu and Nedic, 2021).

        x+ = R(x - a s)        (`order=cta`: x+ = Rx - a s, which is AB)
        s+ = Cs + g+ - g

    The rows of R (pull) and the columns of C (push) sum to one; where the graph has a doubly
    stochastic A, it is both of them. The start is s = g.

    Options:
        order: atc adapts, then combines; cta combines, then adapts (AB)
    """

    order: Literal["cta", "atc"] = "atc"

    display_name: ClassVar[str] = "push-pull"
    graph: ClassVar[Graph] = "directed"
    kinds: ClassVar[tuple[str, ...]] = ("pull", "push")
