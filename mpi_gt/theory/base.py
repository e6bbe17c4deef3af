"""The form of the theory: constants, conditions and bounds that both forms have."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from .setting import Setting, Start, Sums, Value


@dataclass(frozen=True)
class Condition:
    """One condition on alpha: it must lie in (low, high]. If `high` is None, no alpha meets it."""

    name: str
    low: float
    high: float | None
    excess: float
    """The left side of the condition over its right side at the given alpha: met up to 1."""
    least: float = 0.0
    """The smallest excess over all alphas: if it is more than 1, no alpha meets the condition."""

    @property
    def met(self) -> bool:
        """True if the given alpha meets the condition."""
        return self.excess <= 1


@dataclass(frozen=True)
class Form(ABC):
    """The constants, conditions and right sides of Lemmas 1 to 6, Theorem 1 and Corollary 1.

    The paper's N2', N3' and N4' are `N2p`, `N3p` and `N4p`. A bound that does not exist is
    infinite.
    """

    setting: Setting

    name: ClassVar[str]
    constants: ClassVar[tuple[str, ...]]
    """The names of the constants to show, in this order."""

    # Lemma 1; of its constants only M1 differs between the two forms
    @property
    def _weight(self) -> float:
        of = self.setting
        return math.sqrt(of.vmax) + 2 * of.alpha**2 * (of.L + 1)

    @property
    @abstractmethod
    def M1(self) -> float: ...

    @property
    def M2(self) -> float:
        return 18 / self.setting.vmin / self.setting.n * self._weight

    @property
    def M3(self) -> float:
        of = self.setting
        return of.momentum / of.vmin / of.n * (16 * self._weight + (of.alpha * of.L) ** 2)

    @property
    def M4(self) -> float:
        return self.M3

    @property
    def M5(self) -> float:
        of = self.setting
        return of.G * of.G / of.vmin / of.vmin / of.vmin / of.n * self._weight

    @property
    def M6(self) -> float:
        return 4 / self.setting.vmin / self.setting.n * self._weight

    @property
    def descent(self) -> float:
        """The factor alpha (vmax^-½ - alpha vmin^-½/2 - alpha (L+1)/vmin) of ||grad f||²."""
        of = self.setting
        return of.alpha * (1 / math.sqrt(of.vmax) - of.alpha * self._curvature)

    @property
    def _curvature(self) -> float:
        of = self.setting
        return 0.5 / math.sqrt(of.vmin) + (of.L + 1) / of.vmin

    @abstractmethod
    def lemma1(self, sums: Sums) -> Value:
        """Return the right side of Lemma 1; the left one is f(z+) - f(z) + descent ||grad f||²."""

    def lemma2(self, sums: Sums) -> Value:
        """Return the bound on the sum of ||m - m~||²."""
        return 4 * sums.s

    @abstractmethod
    def lemma3(self, sums: Sums, start: Start) -> Value:
        """Return the bound on the sum of ||x - x~||²."""

    @abstractmethod
    def lemma4(self, sums: Sums, start: Start) -> Value:
        """Return the bound on the sum of ||m~||²."""

    @abstractmethod
    def lemma5(self, sums: Sums, start: Start) -> Value:
        """Return the bound on the sum of ||v - v~||²."""

    # Lemma 6
    @property
    @abstractmethod
    def N1(self) -> float: ...

    @property
    @abstractmethod
    def N2(self) -> float: ...

    @property
    @abstractmethod
    def N3(self) -> float: ...

    @property
    @abstractmethod
    def N4(self) -> float: ...

    def lemma6(self, sums: Sums, start: Start) -> Value:
        """Return the bound on the sum of ||s - s~||²."""
        of = self.setting
        rest = of.n * sums.T * self.N3 * of.sigma2 + self.N4 * start.delta
        return 2 * (of.n * of.alpha**2 * self.N2 * sums.gradient + rest)

    # Theorem 1
    @property
    @abstractmethod
    def N2p(self) -> float: ...

    @property
    @abstractmethod
    def N3p(self) -> float: ...

    @property
    @abstractmethod
    def N4p(self) -> float: ...

    @property
    def gain(self) -> float:
        """The divisor alpha (vmax^-½ - alpha N2'): the bounds are finite if it is positive."""
        of = self.setting
        return of.alpha * (1 / math.sqrt(of.vmax) - of.alpha * self.N2p)

    def theorem(self, T: Value, start: Start) -> Value:
        """Return the bound on the mean of ||grad f(xbar_t)||² over t = 1..T."""
        if not self.gain > 0:
            return math.inf + 0 * T
        total = start.descent + self.N4p * start.delta + T * self.N3p * self.setting.sigma2
        return total / (self.gain * T)

    @abstractmethod
    def corollary(self, T: Value, start: Start) -> Value:
        """Return the bound on the mean optimality gap over t = 1..T."""

    # conditions on alpha
    @abstractmethod
    def _simple_conditions(self) -> list[tuple[str, float]]:
        """Return the name and the largest alpha of each condition of Lemma 6."""

    def lemma6_conditions(self) -> list[Condition]:
        """Return the conditions of Lemma 6."""
        return [
            Condition(name, 0.0, high, self.setting.alpha / high)
            for name, high in self._simple_conditions()
        ]

    def conditions(self) -> list[Condition]:
        """Return the conditions of Lemma 6 and that of Theorem 1."""
        of = self.setting

        def load(alpha: float) -> float:
            """Return alpha N2' as a multiple of vmax^-½."""
            return alpha * type(self)(replace(of, alpha=alpha)).N2p * math.sqrt(of.vmax)

        low, high, least = where_below_one(load, falls_first=of.momentum > 0)
        last = Condition("alpha N2' < vmax^(-1/2)", low, high, load(of.alpha), least)
        return [*self.lemma6_conditions(), last]


def where_below_one(
    load: Callable[[float], float], falls_first: bool
) -> tuple[float, float | None, float]:
    """Return the interval of alphas on which `load` is below one, and the least value of `load`.

    The end of the interval is None if there is no such alpha. `load` is a sum of powers of alpha
    with positive factors, so log(load) is convex in log(alpha). `falls_first`: one power is
    negative (there is momentum), so `load` falls before it rises.
    """

    def height(u: float) -> float:
        value = load(math.exp(u))
        return math.log(value) if value > 0 else -math.inf

    lowest, highest = -300.0, 100.0
    bottom = lowest
    if falls_first:
        left, right = lowest, highest
        for _ in range(120):
            third = (right - left) / 3
            if height(left + third) <= height(right - third):
                right -= third
            else:
                left += third
        bottom = (left + right) / 2
    least = load(math.exp(bottom)) if falls_first else 0.0
    if not height(bottom) < 0:
        return 0.0, None, least
    low = math.exp(_crossing(height, bottom, lowest)) if falls_first else 0.0
    return low, math.exp(_crossing(height, bottom, highest)), least


def _crossing(height: Callable[[float], float], inside: float, outside: float) -> float:
    """Return the last point before `height` reaches zero between `inside` and `outside`."""
    for _ in range(100):
        middle = (inside + outside) / 2
        if height(middle) < 0:
            inside = middle
        else:
            outside = middle
    return inside
