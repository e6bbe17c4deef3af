"""Algorithms by their command-line names."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..spec import Registry
from .base import Algorithm

ALGORITHMS: Mapping[str, type[Algorithm]] = Registry(
    __name__,
    {
        "gt-adaptive": ".gt_adaptive:GTAdaptive",
        "gt": ".gt:GradientTracking",
        "dsgd": ".dsgd:DSGD",
        "dsgd-momentum": ".dsgd_momentum:MomentumDSGD",
        "decentlam": ".decentlam:DecentLaM",
        "d-amsgrad": ".d_amsgrad:DAMSGrad",
        "d-adabound": ".d_adabound:DAdaBound",
        "gtadam": ".gtadam:GTAdam",
        "gt-adaptive-vr": ".variance_reduced.gt_adaptive_vr:GTAdaptiveVR",
        "gt-sarah": ".variance_reduced.gt_sarah:GTSARAH",
        "gt-svrg": ".variance_reduced.gt_svrg:GTSVRG",
        "gt-hsgd": ".variance_reduced.gt_hsgd:GTHSGD",
        "gt-adaptive-compressed": ".compressed.gt_adaptive_compressed:GTAdaptiveCompressed",
        "beer": ".compressed.beer:BEER",
        "choco-sgd": ".compressed.choco_sgd:ChocoSGD",
        "lead": ".compressed.lead:LEAD",
        "exact-diffusion": ".exact_diffusion:ExactDiffusion",
        "extra": ".extra:EXTRA",
        "k-gt": ".k_gt:KGT",
        "momentum-tracking": ".momentum_tracking:MomentumTracking",
        "qg-dsgdm": ".qg_dsgdm:QuasiGlobalMomentum",
        "push-pull": ".directed.push_pull:PushPull",
        "push-diging": ".directed.push_diging:PushDIGing",
        "sgp": ".directed.sgp:SGP",
        "gt-adaptive-pp": ".directed.gt_adaptive_pp:GTAdaptivePP",
    },
)


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


def name_with_stepsize(label: str, lr: Any) -> str:
    """Return the full name with the stepsize, also where the label does not have it."""
    given = label.rpartition(":")[2]
    named = any(option.startswith("lr=") for option in given.split(","))
    if named or not isinstance(lr, int | float | str):
        return full_name(label)
    return full_name(f"{label}{',' if '=' in given else ':'}lr={lr}")


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


__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "display_name",
    "full_name",
    "name_with_stepsize",
    "short_name",
    "told_apart",
]
