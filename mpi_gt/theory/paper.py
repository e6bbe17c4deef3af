"""The theory as the paper prints it, including its slips."""

import math
from dataclasses import dataclass
from typing import ClassVar

from .base import Form
from .setting import Start, Sums, Value


@dataclass(frozen=True)
class Paper(Form):
    """The form in the paper."""

    name: ClassVar[str] = "paper"
    constants: ClassVar[tuple[str, ...]] = (
        *("M1", "M2", "M3", "M4", "M5", "M6", "N1", "N2", "N3", "N4"),
        *("mu", "omega", "N2p", "N3p", "N4p"),
    )

    @property
    def M1(self) -> float:
        return 4 / self.setting.vmin * self.setting.L / self.setting.n * self._weight

    def lemma1(self, sums: Sums) -> Value:
        return (
            self.M1 * sums.x
            + self.M2 * sums.s
            + self.M3 * sums.m
            + self.M4 * sums.mbar
            + self.M5 * sums.v
            + self.M6 * sums.noise
        )

    @property
    def _kx(self) -> float:
        """The factor of the sum of ||s - s~||² in Lemma 3."""
        of = self.setting
        return 40 * of.alpha**2 / of.vmin / of.p**2

    def lemma3(self, sums: Sums, start: Start) -> Value:
        return self._kx * sums.s + 2 / self.setting.p * start.delta1

    def lemma4(self, sums: Sums, start: Start) -> Value:
        of = self.setting
        consensus = 6 * of.L**2 * self._kx * sums.s + 12 * of.L**2 / of.p * start.delta1
        return consensus + 6 * of.n * (sums.gradient + of.sigma2 * sums.T)

    def lemma5(self, sums: Sums, start: Start) -> Value:
        of = self.setting
        return 36 * of.G**2 / (1 - of.rho) ** 2 * sums.s + 2 / (1 - of.beta2**2) * start.delta2

    @property
    def N1(self) -> float:
        L, u, p = self.setting.L, 1 / self.setting.vmin, self.setting.p
        return 14400 * L**2 * u / p**4 + 72 * u / p**2 * (4 + 20 * L**2 / 3)

    @property
    def N2(self) -> float:
        return 504 / self.setting.vmin / self.setting.p**2

    @property
    def N3(self) -> float:
        return 12 + 216 / self.setting.p**2

    @property
    def N4(self) -> float:
        L, p, b1 = self.setting.L, self.setting.p, self.setting.beta1
        return max(720 * L**2 / p**5 + 24 * L**2 / p, 2 * b1**2 / (1 - b1**2), 0.5)

    @property
    def mu(self) -> float:
        of = self.setting
        return 36 / of.vmin * math.sqrt(of.vmax) + of.L + 1

    @property
    def omega(self) -> float:
        """The smallest omega with beta1²/(omega (1 - beta1)²) <= alpha²; N2' grows with it."""
        return self.setting.momentum / self.setting.alpha**2

    @property
    def _cubic(self) -> float:
        """72 G³ vmin^-2/(1 - rho_A)²."""
        of = self.setting
        return 72 * of.G * of.G * of.G / of.vmin / of.vmin / (1 - of.rho) ** 2

    @property
    def N2p(self) -> float:
        L, mu = self.setting.L, self.mu
        momentum = self.omega * (mu + L**2 / 36) * (3 + 4 * self.N2 * (L**2 + 1))
        return self.N2 * (L / 9 * mu + mu + self._cubic) + self._curvature + momentum

    @property
    def N3p(self) -> float:
        L, mu, omega = self.setting.L, self.mu, self.omega
        return (
            mu * self.N3 * (L / 9 + omega * (4 + 4 * L**2) + 1)
            + self.N3 * (omega * L**2 / 9 + L**4 / 10)
            + mu * (1 / 9 + 3 * omega)
            + omega * L**2 / 24
        )

    @property
    def N4p(self) -> float:
        of, mu = self.setting, self.mu
        L, n, p = of.L, of.n, of.p
        wa2 = self.omega * of.alpha**2
        first = mu * self.N4 / n * (10 * L / 81 + 1 + wa2 * (8 + 20 * L**2 / 3) + self._cubic)
        of_x = 2 * L * mu / (9 * n * p) + 12 * wa2 * L**2 / (n * p)
        of_v = of.G**2 / of.vmin / of.vmin * mu / (18 * n * (1 - of.beta2**2))
        return first + max(of_x, of_v)

    def corollary(self, T: Value, start: Start) -> Value:
        """Return the bound as printed, which covers only the consensus term of the gap."""
        if not self.gain > 0:
            return math.inf + 0 * T
        of, k = self.setting, self._kx
        descent = 2 * k * self.N2 / self.gain * start.descent / T
        spread = 2 * k * (self.N2 * self.N4p / self.gain + self.N4 / of.n) + 2 / (of.n * of.p)
        noise = k * (2 * self.N2 * self.N3p / self.gain + 2 * self.N3) * of.sigma2
        return descent + spread * start.delta / T + noise

    def _simple_conditions(self) -> list[tuple[str, float]]:
        of = self.setting
        return [
            ("alpha² <= 1/(2 N1)", math.sqrt(0.5 / self.N1)),
            ("alpha² <= vmin (1 - rho_A²)²/72", math.sqrt(of.vmin / 72) * of.p),
        ]
