"""Methods with compressed messages."""

from .beer import BEER
from .choco_sgd import ChocoSGD
from .gt_adaptive_compressed import GTAdaptiveCompressed
from .lead import LEAD

__all__ = ["BEER", "LEAD", "ChocoSGD", "GTAdaptiveCompressed"]
