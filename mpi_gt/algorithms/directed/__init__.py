"""Methods for directed graphs, on which no matrix need be doubly stochastic."""

from .gt_adaptive_pp import GTAdaptivePP
from .push_diging import PushDIGing
from .push_pull import PushPull
from .sgp import SGP

__all__ = ["SGP", "GTAdaptivePP", "PushDIGing", "PushPull"]
