"""Which alphas the theory admits, and a beta1 and an alpha that fit together."""

import math
from dataclasses import dataclass, replace

from .base import Condition, Form
from .setting import Setting


@dataclass(frozen=True)
class Admissible:
    """What the conditions of Theorem 1, in one form, say of a setting."""

    conditions: list[Condition]
    interval: tuple[float, float] | None
    """The alphas that all conditions admit at this beta1."""
    binding: Condition
    """The condition that ends the interval, or leaves none."""

    @property
    def broken(self) -> list[Condition]:
        return [condition for condition in self.conditions if not condition.met]


def admissible_alphas(form: Form) -> Admissible:
    conditions = form.conditions()
    highs = [math.inf if one.high is None else one.high for one in conditions]
    impossible = [one for one in conditions if one.high is None]
    low, high = max(one.low for one in conditions), min(highs)
    if impossible or low >= high:
        # where the ends cross, it is the one with a lower end that cannot be met
        binding = impossible[0] if impossible else max(conditions, key=lambda one: one.low)
        return Admissible(conditions, None, binding)
    return Admissible(conditions, (low, high), conditions[highs.index(high)])


def suggest(kind: type[Form], setting: Setting) -> tuple[float, float] | None:
    """beta1 and alpha that satisfy every condition, or None.

    Without momentum alpha is the one with the largest alpha (vmax^-½ - alpha N2'), by which the
    bounds are divided; beta1 is then the largest that costs no more than half of that.
    """
    _, most = _best_alpha(kind, replace(setting, beta1=0.0))
    if not most > 0:
        return None  # constants past all use
    low, high = -200.0, 0.0  # of log beta1
    for _ in range(50):
        middle = (low + high) / 2
        if _best_alpha(kind, replace(setting, beta1=math.exp(middle)))[1] >= most / 2:
            low = middle
        else:
            high = middle
    beta1 = _rounded_down(math.exp(low))
    alpha, _ = _best_alpha(kind, replace(setting, beta1=beta1))
    return beta1, _rounded_down(alpha)


def _best_alpha(kind: type[Form], setting: Setting) -> tuple[float, float]:
    """The alpha with the largest gain, and that gain; it is concave in alpha."""

    def gain(log_alpha: float) -> float:
        return kind(replace(setting, alpha=math.exp(log_alpha))).gain

    interval = admissible_alphas(kind(setting)).interval
    if interval is None:
        return 0.0, -math.inf
    low, high = interval
    right = math.log(high)
    left = math.log(low) if low > 0 else right - 50
    for _ in range(80):
        third = (right - left) / 3
        if gain(left + third) > gain(right - third):
            right -= third
        else:
            left += third
    return math.exp(left), gain(left)


def _rounded_down(value: float) -> float:
    """To three digits: a value that is easy to type, and still admissible."""
    if value == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.floor(value / unit) * unit:.3g}")
