"""The normal distribution N(0, sd²) truncated to [-c, c]: sampling and partial moments."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fuse import entrywise
from ..kernels import fixed_order

Array = NDArray[Any]

_erf_of_one = np.frompyfunc(math.erf, 1, 1)


class TruncatedNormal:
    """N(0, sd²) truncated to [-c, c]; `reproducible`: with the same bits on every processor.

    `coefficients` are those of `odd_coefficients`, if they are known already.
    """

    def __init__(
        self,
        sd: float,
        c: float,
        reproducible: bool = False,
        coefficients: list[float] | None = None,
    ) -> None:
        self.sd = sd
        self.c = c
        self._exp: Callable[[Array], Array] = fixed_order.exp if reproducible else np.exp
        self._erf: Callable[[Array], Array] = fixed_order.erf if reproducible else _erf
        if reproducible:
            from . import decimal_normal  # here: few runs need it

            self.mass, self.variance = decimal_normal.mass_and_variance(sd, c)
            self._inverse = decimal_normal.inverse(self.mass)
        else:
            self.mass = mass_within(sd, c)
            density = math.exp(-0.5 * (c / sd) ** 2) / math.sqrt(2 * math.pi)
            self.variance = sd**2 * (1 - 2 * (c / sd) * density / self.mass)
            known = coefficients or odd_coefficients(self.mass)
            self._inverse = odd_function(known) if known else _inverse_by_scipy(self.mass)
        self.numbers = self.sd, self.c, self.mass, self.variance
        self.sample = entrywise(self._sample, arrays=1)

    def _sample(self, uniform: Array) -> Array:
        """Return one sample per uniform number in [0, 1), by the inverse CDF."""
        z = self.sd * self._inverse(2 * uniform - 1)
        return np.maximum(np.minimum(z, self.c), -self.c)

    def moments(self, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
        """Return the integrals of 1, u and u² over [lower, upper] within [-c, c]."""
        a, b = lower / self.sd, upper / self.sd
        density_a, density_b = self._density(a), self._density(b)
        zeroth = 0.5 * (self._erf(b / math.sqrt(2)) - self._erf(a / math.sqrt(2))) / self.mass
        first = self.sd * (density_a - density_b) / self.mass
        second = self.sd**2 * (zeroth + (a * density_a - b * density_b) / self.mass)
        return zeroth, first, second

    def _density(self, z: Array) -> Array:
        return self._exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def _erf(z: Array) -> Array:
    return np.asarray(_erf_of_one(z), dtype=float)


def mass_within(sd: float, c: float) -> float:
    """Return the probability of [-c, c] under N(0, sd²)."""
    return math.erf(c / sd / math.sqrt(2))


def odd_coefficients(mass: float, degree: int = 12) -> list[float] | None:
    """Return the coefficients of P, with w P(2 w² - 1) the normal quantile of (1 + w mass) / 2.

    For w in [-1, 1] it is accurate to two units in the last place if the truncation is narrow (the
    paper's is at half a standard deviation), and needs no scipy, whose import takes longer than a
    short run. None: no polynomial of this degree is accurate enough.
    """
    if mass > 0.7:  # the truncation is beyond one standard deviation
        return None

    nodes = np.polynomial.chebyshev.chebpts1(degree + 1)
    values = [_quantile(mass * w) / w for w in np.sqrt((nodes + 1) / 2)]
    coefficients = np.polynomial.Chebyshev.fit(nodes, values, degree, domain=[-1, 1])
    found: list[float] = coefficients.convert(kind=np.polynomial.Polynomial).coef.tolist()
    inverse = odd_function(found)
    probe = np.linspace(0.001, 1, 200)
    exact = np.array([_quantile(mass * value) for value in probe])
    return found if np.abs(inverse(probe) - exact).max() <= 2e-15 * exact.max() else None


def odd_function(coefficients: list[float]) -> Callable[[Array], Array]:
    """Return the function w P(2 w² - 1) for the coefficients of P."""

    def inverse(w: Array) -> Array:
        h = 2 * w * w - 1
        total = coefficients[-1] * h + coefficients[-2]
        for coefficient in coefficients[-3::-1]:
            total = total * h + coefficient
        return total * w

    return inverse


def _quantile(w: float) -> float:
    """Return the standard normal quantile of (1 + w) / 2, without cancellation near w = 0."""
    from statistics import NormalDist  # here: on root only, for all ranks

    z = NormalDist().inv_cdf((1 + w) / 2)
    for _ in range(2):  # Newton on erf(z / sqrt 2) = w
        z -= (math.erf(z / math.sqrt(2)) - w) / (2 * NormalDist().pdf(z))
    return z


def _inverse_by_scipy(mass: float) -> Callable[[Array], Array]:
    """Return the same quantile by scipy, for any truncation."""
    from scipy.special import ndtri

    return lambda w: ndtri(0.5 + 0.5 * mass * w)
