"""Stepsizes that the theory admits, and a suggestion for beta1 and alpha."""

import math
from dataclasses import dataclass, replace

from .base import Condition, Form
from .setting import Setting


@dataclass(frozen=True)
class Admissible:
    """The conditions of Theorem 1, in one form, applied to a setting."""

    conditions: list[Condition]
    interval: tuple[float, float] | None
    """The alphas that all conditions admit at this beta1; None: there are none."""
    binding: Condition
    """The condition that limits the interval from above, or excludes every alpha."""

    @property
    def broken(self) -> list[Condition]:
        """The conditions that the given alpha does not meet."""
        return [condition for condition in self.conditions if not condition.met]


def admissible_alphas(form: Form) -> Admissible:
    """Return the alphas that all conditions of a form admit."""
    conditions = form.conditions()
    highs = [math.inf if one.high is None else one.high for one in conditions]
    impossible = [one for one in conditions if one.high is None]
    low, high = max(one.low for one in conditions), min(highs)
    if impossible or low >= high:
        # if the ends cross, the condition with the largest lower end excludes every alpha
        binding = impossible[0] if impossible else max(conditions, key=lambda one: one.low)
        return Admissible(conditions, None, binding)
    return Admissible(conditions, (low, high), conditions[highs.index(high)])


def suggest(kind: type[Form], setting: Setting) -> tuple[float, float] | None:
    """Return a beta1 and an alpha that satisfy every condition, or None.

    The bounds are divided by the gain alpha (vmax^-½ - alpha N2'). beta1 is the largest one that
    costs at most half of the best gain without momentum, and alpha has the largest gain at it.
    """
    _, most = _best_alpha(kind, replace(setting, beta1=0.0))
    if not most > 0:
        return None  # the constants admit no alpha even without momentum
    low, high = -200.0, 0.0  # log beta1
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
    """Return the alpha with the largest gain, and that gain, which is concave in alpha."""

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
    """Round down to three digits: easy to type, and still admissible."""
    if value == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.floor(value / unit) * unit:.3g}")
