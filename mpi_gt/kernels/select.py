"""What sends vectors and adds up what comes: the compiled classes, or else those in Python."""

from typing import TYPE_CHECKING

from .. import kernels

if TYPE_CHECKING or kernels.C is None:
    from .reference import Arrival, Counters, Mix, NextGradient, Post, stamp, walk
else:
    from ._c import Arrival, Counters, Mix, NextGradient, Post, stamp, walk

__all__ = ["Arrival", "Counters", "Mix", "NextGradient", "Post", "stamp", "walk"]
