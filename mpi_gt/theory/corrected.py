"""The theory with the slips in the paper's algebra corrected; `DIFFERENCES` lists them."""

import math
from dataclasses import dataclass
from typing import ClassVar

from .base import Form
from .setting import Start, Sums, Value

DIFFERENCES = (
    "M1 carries L², not L (the proof of Lemma 1 squares it)",
    "Lemma 1 bounds by ||v - v~||² at t+1, as its proof does, not at t",
    "Lemma 3: V^(-1/2) differs from node to node, which adds ||v - v~||² and so G, S and Delta_2",
    "Lemma 4 rests on Lemma 3, and changes with it",
    "Lemma 5: s² - s~² = (s + s~)(s - s~) has a factor 2, and |s| <= S = G (1 + 2 sqrt(n)/(1-r))",
    "Lemma 6: N1 and N2 carry the L² that the proof drops; N4 has 4/p on Delta_3 and D on Delta_2",
    "Lemma 6: for L > 1 its second condition on alpha is stricter by L",
    "Theorem 1: N2', N3', N4' from the corrected lemmas, without omega; N2' depends on alpha",
    "Corollary 1 as printed leaves out the gradient's part of the gap that it should bound",
)


@dataclass(frozen=True)
class Corrected(Form):
    """The corrected form. Kx, S, D and E are not in the paper; p = 1 - rho_A² and r = rho_A."""

    name: ClassVar[str] = "corrected"
    constants: ClassVar[tuple[str, ...]] = (
        *("M1", "M2", "M3", "M4", "M5", "M6", "S", "Kx", "D", "N1", "N2", "N3", "N4"),
        *("E", "N2p", "N3p", "N4p"),
    )

    @property
    def M1(self) -> float:
        return 4 / self.setting.vmin * self.setting.L**2 / self.setting.n * self._weight

    def lemma1(self, sums: Sums) -> Value:
        return (
            self.M1 * sums.x
            + self.M2 * sums.s
            + self.M3 * sums.m
            + self.M4 * sums.mbar
            + self.M5 * sums.v_next
            + self.M6 * sums.noise
        )

    @property
    def S(self) -> float:
        """A bound on every entry of every s: |mean g| <= G, and ||s - s~|| <= 2 sqrt(n) G/(1-r)."""
        of = self.setting
        return of.G * (1 + 2 * math.sqrt(of.n) / (1 - of.rho))

    @property
    def Kx(self) -> float:
        of = self.setting
        gs = of.G * self.S
        return 48 / of.vmin + 24 * gs * gs / of.vmin / of.vmin / of.vmin

    @property
    def D(self) -> float:
        of = self.setting
        ag = of.alpha * of.G
        return 6 * ag * ag / of.vmin / of.vmin / of.vmin / (of.p**2 * (1 - of.beta2**2))

    @property
    def _kx(self) -> float:
        """The factor of the sum of ||s - s~||² in Lemma 3."""
        return self.setting.alpha**2 * self.Kx / self.setting.p**2

    def _initial_x(self, start: Start) -> float:
        """Return the part of Lemma 3 that depends on the start alone."""
        return 2 / self.setting.p * start.delta1 + self.D * start.delta2

    def lemma3(self, sums: Sums, start: Start) -> Value:
        return self._kx * sums.s + self._initial_x(start)

    def lemma4(self, sums: Sums, start: Start) -> Value:
        of = self.setting
        noise = of.n * (sums.gradient + of.sigma2 * sums.T)
        return 6 * of.L**2 * self.lemma3(sums, start) + 6 * noise

    def lemma5(self, sums: Sums, start: Start) -> Value:
        return 8 * self.S * self.S * sums.s + 2 / (1 - self.setting.beta2**2) * start.delta2

    @property
    def _n1(self) -> tuple[float, float]:
        """The pair c, d of N1 = c + d alpha²."""
        L, u, p = self.setting.L, 1 / self.setting.vmin, self.setting.p
        c = 360 * L**2 * self.Kx / p**4 + 288 * L**2 * u / p**2
        return c, 432 * L**4 * u * self.Kx / p**4

    @property
    def N1(self) -> float:
        c, d = self._n1
        return c + d * self.setting.alpha**2

    @property
    def N2(self) -> float:
        return 504 * self.setting.L**2 / self.setting.vmin / self.setting.p**2

    @property
    def N3(self) -> float:
        return 216 / self.setting.p**2 + 6

    @property
    def N4(self) -> float:
        L, p = self.setting.L, self.setting.p
        of_x = 720 * L**2 / p**3 + 12 * L**2 / p
        return max(of_x, (360 * L**2 / p**2 + 6 * L**2) * self.D, 4 / p)

    @property
    def _of_x(self) -> float:
        """The factor of the sum of ||x - x~||² after Lemma 4 is inserted into Lemma 1."""
        return self.M1 + 6 * self.setting.L**2 * self.M4

    @property
    def E(self) -> float:
        """The factor of the sum of ||s - s~||² after Lemmas 2 to 5 are inserted into Lemma 1."""
        return self._of_x * self._kx + self.M2 + 4 * self.M3 + 8 * self.S * self.S * self.M5

    @property
    def N2p(self) -> float:
        of = self.setting
        momentum = 6 * of.n * self.M4 / of.alpha**2
        return 2 * of.n * self.N2 * self.E + momentum + self._curvature

    @property
    def N3p(self) -> float:
        return self.setting.n * (2 * self.N3 * self.E + 6 * self.M4 + self.M6)

    @property
    def N4p(self) -> float:
        of = self.setting
        of_v = self._of_x * self.D + 2 * self.M5 / (1 - of.beta2**2)
        return 2 * self.N4 * self.E + max(self._of_x * 2 / of.p, of_v)

    def corollary(self, T: Value, start: Start) -> Value:
        of, k = self.setting, self._kx
        gradient = self.theorem(T, start)
        tracker = self.N3 * of.sigma2 + self.N4 * start.delta / (of.n * T)
        consensus = 2 * k * tracker + self._initial_x(start) / (of.n * T)
        return gradient * (1 + 2 * of.alpha**2 * k * self.N2) + consensus

    def _simple_conditions(self) -> list[tuple[str, float]]:
        of = self.setting
        c, d = self._n1
        square = c + math.sqrt(c * c + 2 * d)  # 1/alpha² at which alpha² N1 = 1/2
        return [
            ("alpha² N1 <= 1/2", 1 / math.sqrt(square) if square > 0 else math.inf),
            (
                "alpha² <= vmin (1 - rho_A²)²/(72 max(1, L²))",
                math.sqrt(of.vmin / 72) * of.p / max(1, of.L),
            ),
        ]
