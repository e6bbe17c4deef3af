"""The algorithms by their command-line names."""

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

__all__ = ["ALGORITHMS", "Algorithm"]
