"""Verdicts on the theory: the measured sums of a run against the bounds."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Form
from .setting import Start, Sums, Value
from .stepsizes import admissible_alphas

Array = NDArray[Any]

STATEMENTS = {
    "1": "Lemma 1, descent of f(zbar)",
    "2": "Lemma 2, consensus of m",
    "3": "Lemma 3, consensus of x",
    "4": "Lemma 4, norm of mean m",
    "5": "Lemma 5, consensus of v",
    "6": "Lemma 6, consensus of s",
    "theorem": "Theorem 1, mean ||grad f||²",
    "corollary": "Corollary 1, mean gap",
}
SLACK = 1e-9  # relative excess over a bound that counts as rounding


@dataclass(frozen=True)
class Step:
    """Lemma 1 at one iteration and seed."""

    t: int
    seed: int
    left: float
    right: float
    violated: bool

    @property
    def ratio(self) -> float | None:
        """The left side over the right one; None if there is no bound."""
        return _ratio(self.left, self.right)


@dataclass(frozen=True)
class Curve:
    """Both sides of one statement for T = 1, 2, ...; `floor`: what rounding may add to `left`."""

    left: Array
    right: Array
    floor: Array

    @property
    def violated(self) -> Array:
        """True at each T at which the left side exceeds the right one."""
        return np.asarray(self.left > self.right * (1 + SLACK) + self.floor)

    def worst(self) -> int:
        """Return the index at which the left side is nearest to the right one, or most above it."""
        with np.errstate(all="ignore"):
            ratio = self.left / np.maximum(self.right, self.floor + np.finfo(float).tiny)
        return int(np.argmax(np.where(self.violated, 1e9 + ratio, ratio)))


def curves(form: Form, sums: Sums, start: Start, fall: Value, rounding: Sums) -> dict[str, Curve]:
    """Return both sides of every statement, from running sums.

    `fall` is the sum of f(zbar+) - f(zbar). `rounding` holds, in place of each sum, the value
    that rounding alone may give it.
    """
    n, none = form.setting.n, 0 * sums.T
    pairs = {
        "1": (fall + form.descent * sums.gradient, form.lemma1(sums), none + SLACK),
        "2": (sums.m, form.lemma2(sums), rounding.m),
        "3": (sums.x, form.lemma3(sums, start), rounding.x),
        "4": (sums.mbar, form.lemma4(sums, start), rounding.m),
        "5": (sums.v, form.lemma5(sums, start), rounding.v),
        "6": (sums.s, form.lemma6(sums, start), rounding.s),
        "theorem": (sums.gradient / sums.T, form.theorem(sums.T, start), none),
        "corollary": (
            (sums.gradient + sums.x / n) / sums.T,
            form.corollary(sums.T, start),
            rounding.x,
        ),
    }
    return {name: Curve(*map(np.asarray, sides)) for name, sides in pairs.items()}


def verdicts(form: Form, sides: dict[str, Curve], step: Step) -> dict[str, dict[str, Any]]:
    """Return per statement both sides at T, their ratio, and whether it held at every t.

    A statement whose conditions on alpha are not met claims nothing, so it is not violated.
    """
    lemma6 = all(condition.met for condition in form.lemma6_conditions())
    applies = {
        "6": lemma6,
        "theorem": not admissible_alphas(form).broken,
        "corollary": not admissible_alphas(form).broken,
    }
    by_name = {}
    for name, curve in sides.items():
        worst = curve.worst()
        tightest = {"t": worst + 1, **_sides(curve.left[worst], curve.right[worst])}
        violated = bool(curve.violated.any())
        if name == "1":  # Lemma 1 is stated for each t, without an expectation
            tightest = {"t": step.t, "seed": step.seed, **_sides(step.left, step.right)}
            violated = step.violated
        claims = applies.get(name, True)
        by_name[name] = {
            **_sides(curve.left[-1], curve.right[-1]),
            "verdict": "violated" if violated and claims else "holds",
            "applies": claims,
            "worst": tightest,
        }
    return by_name


def _sides(left: float, right: float) -> dict[str, float | None]:
    return {"left": finite(left), "right": finite(right), "ratio": _ratio(left, right)}


def _ratio(left: float, right: float) -> float | None:
    return finite(left / right) if right > 0 and math.isfinite(right) else None


def finite(value: float) -> float | None:
    """Return the value, or None for an infinite one, which JSON cannot hold."""
    return float(value) if math.isfinite(value) else None
