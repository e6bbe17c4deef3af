"""Methods whose gradients lose their variance."""

from .gt_adaptive_vr import GTAdaptiveVR
from .gt_hsgd import GTHSGD
from .gt_sarah import GTSARAH
from .gt_svrg import GTSVRG

__all__ = ["GTHSGD", "GTSARAH", "GTSVRG", "GTAdaptiveVR"]
