"""Algorithms by their command-line names."""

from collections.abc import Sequence

from .base import Algorithm
from .compressed import BEER, LEAD, ChocoSGD, GTAdaptiveCompressed
from .d_adabound import DAdaBound
from .d_amsgrad import DAMSGrad
from .decentlam import DecentLaM
from .directed import SGP, GTAdaptivePP, PushDIGing, PushPull
from .dsgd import DSGD
from .dsgd_momentum import MomentumDSGD
from .exact_diffusion import ExactDiffusion
from .extra import EXTRA
from .gt import GradientTracking
from .gt_adaptive import GTAdaptive
from .gtadam import GTAdam
from .k_gt import KGT
from .momentum_tracking import MomentumTracking
from .qg_dsgdm import QuasiGlobalMomentum
from .variance_reduced import GTHSGD, GTSARAH, GTSVRG, GTAdaptiveVR

ALGORITHMS: dict[str, type[Algorithm]] = {
    "gt-adaptive": GTAdaptive,
    "gt": GradientTracking,
    "dsgd": DSGD,
    "dsgd-momentum": MomentumDSGD,
    "decentlam": DecentLaM,
    "d-amsgrad": DAMSGrad,
    "d-adabound": DAdaBound,
    "gtadam": GTAdam,
    "gt-adaptive-vr": GTAdaptiveVR,
    "gt-sarah": GTSARAH,
    "gt-svrg": GTSVRG,
    "gt-hsgd": GTHSGD,
    "gt-adaptive-compressed": GTAdaptiveCompressed,
    "beer": BEER,
    "choco-sgd": ChocoSGD,
    "lead": LEAD,
    "exact-diffusion": ExactDiffusion,
    "extra": EXTRA,
    "k-gt": KGT,
    "momentum-tracking": MomentumTracking,
    "qg-dsgdm": QuasiGlobalMomentum,
    "push-pull": PushPull,
    "push-diging": PushDIGing,
    "sgp": SGP,
    "gt-adaptive-pp": GTAdaptivePP,
}


def display_name(label: str) -> str:
    """Return the name of a method as people know it: "DSGD" for "dsgd" and for "dsgd:lr=0.1"."""
    method = ALGORITHMS.get(label.partition(":")[0])
    return (method and method.display_name) or label


def full_name(label: str) -> str:
    """Return the display name with all that tells methods apart: "DSGD (dsgd, lr 0.1)".

    The label is a name, or a specification; of a user's own class it is "module:Class (lr 0.1)".
    """
    words = label.split(":")
    options = words.pop() if len(words) > 1 and "=" in words[-1] else ""
    method = ":".join(words)
    name = display_name(method)
    known = [] if name == method else [method]
    shown = [f"{key} {value}" for key, _, value in (o.partition("=") for o in _pieces(options))]
    return f"{name} ({', '.join(known + shown)})" if known or shown else name


def short_name(label: str) -> str:
    """Return the display name, with the options of the label if it has any: "DSGD"."""
    return full_name(label) if ":" in label else display_name(label)


def told_apart(labels: Sequence[str]) -> dict[str, str]:
    """Return each label without the options that all labels of its method have."""
    options = {label: _pieces(label.partition(":")[2]) for label in labels if _is_known(label)}
    short = {label: label for label in labels}
    for label, own in options.items():
        method = label.partition(":")[0]
        alike = [options[other] for other in options if other.partition(":")[0] == method]
        if len(alike) > 1:
            kept = [piece for piece in own if not all(piece in other for other in alike)]
            short[label] = ":".join([method, *[",".join(kept)] * bool(kept)])
    return short


def _is_known(label: str) -> bool:
    return label.partition(":")[0] in ALGORITHMS


def _pieces(options: str) -> list[str]:
    return [piece for piece in options.split(",") if piece]


__all__ = ["ALGORITHMS", "Algorithm", "display_name", "full_name", "short_name", "told_apart"]
