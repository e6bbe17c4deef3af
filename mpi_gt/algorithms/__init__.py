"""Algorithms by their command-line names."""

from .base import Algorithm
from .d_adabound import DAdaBound
from .d_amsgrad import DAMSGrad
from .decentlam import DecentLaM
from .dsgd import DSGD
from .dsgd_momentum import MomentumDSGD
from .gt import GradientTracking
from .gt_adaptive import GTAdaptive
from .gtadam import GTAdam

ALGORITHMS: dict[str, type[Algorithm]] = {
    "gt-adaptive": GTAdaptive,
    "gt": GradientTracking,
    "dsgd": DSGD,
    "dsgd-momentum": MomentumDSGD,
    "decentlam": DecentLaM,
    "d-amsgrad": DAMSGrad,
    "d-adabound": DAdaBound,
    "gtadam": GTAdam,
}


def display_name(label: str) -> str:
    """Return the name of a method as people know it: "DSGD" for "dsgd" and for "dsgd:lr=0.1"."""
    method = ALGORITHMS.get(label.partition(":")[0])
    return (method and method.display_name) or label


def full_name(label: str) -> str:
    """Return the display name with the command-line name: "DSGD (dsgd)"."""
    name = display_name(label)
    return name if name == label else f"{name} ({label})"


__all__ = ["ALGORITHMS", "Algorithm", "display_name", "full_name"]
