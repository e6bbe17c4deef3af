"""The algorithms by their command-line names."""

from .base import Algorithm
from .gt_adaptive import GTAdaptive

ALGORITHMS: dict[str, type[Algorithm]] = {
    "gt-adaptive": GTAdaptive,
}
