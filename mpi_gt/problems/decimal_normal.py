"""The constants of the truncated normal distribution in decimal arithmetic, for `--reproducible`.

Python computes with decimal numbers by itself, without the processor's floating point: so these
constants are the same everywhere. All of them together take a few milliseconds.
"""

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from statistics import NormalDist
from typing import Any

from numpy.typing import NDArray

from ..kernels import fixed_order

Array = NDArray[Any]

DIGITS = 50
DEGREE = 12
NARROW = 0.5  # largest mass for which the polynomial is accurate to two units in the last place
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


def mass_and_variance(sd: float, c: float) -> tuple[float, float]:
    """Return P(|z| <= c) for z of N(0, sd²), and the variance of z within."""
    with localcontext(Context(prec=DIGITS)):
        square, bound = Decimal(sd) ** 2, Decimal(c) / Decimal(sd)
        mass = _mass(bound)
        return float(mass), float(square * (1 - 2 * bound * _density(bound) / mass))


def inverse(mass: float) -> Callable[[Array], Array]:
    """Return the standard normal quantile of (1 + w mass) / 2 as a function of w in [-1, 1]."""
    if mass > NARROW:
        return lambda w: fixed_order.quantile(0.5 + 0.5 * mass * w)
    from .truncated_normal import odd_function

    return odd_function(_coefficients(mass))


def _coefficients(mass: float) -> list[float]:
    """Return the coefficients of P, for which that quantile is w P(2 w² - 1) to double precision.

    P takes the exact values near the points of Chebyshev, by Newton's divided differences.
    """
    count = DEGREE + 1
    with localcontext(Context(prec=DIGITS)):
        # six digits of the points are far from where a processor could round differently
        angles = [math.pi * (k + 0.5) / count for k in range(count)]
        points = [Decimal(f"{math.cos(angle):.6f}") for angle in angles]
        roots = [((1 + point) / 2).sqrt() for point in points]
        table = [_quantile(Decimal(mass) * root) / root for root in roots]
        for order in range(1, count):
            for k in reversed(range(order, count)):
                table[k] = (table[k] - table[k - 1]) / (points[k] - points[k - order])
        result = [Decimal(0)]
        for k in reversed(range(count)):  # result = result * (h - point) + difference
            shifted = [Decimal(0), *result]
            for power, value in enumerate(result):
                shifted[power] -= points[k] * value
            shifted[0] += table[k]
            result = shifted
        return [float(value) for value in result[:count]]


def _quantile(w: Decimal) -> Decimal:
    """Return the z with P(|z'| <= z) = w, by Newton's method from a number of 16 digits."""
    z = Decimal(NormalDist().inv_cdf(float((1 + w) / 2)))
    for _ in range(3):
        z -= (_mass(z) - w) / (2 * _density(z))
    return z


def _mass(z: Decimal) -> Decimal:
    """Return P(|z'| <= z) for z' of N(0, 1).

    It is 2 z phi(z) times the sum of z^2n / (1 3 ... (2n+1)), whose terms are all positive.
    """
    if z > 20:
        return Decimal(1)
    term = total = Decimal(1)
    n = 1
    while total + term != total:
        term *= z * z / (2 * n + 1)
        total += term
        n += 1
    return 2 * z * _density(z) * total


def _density(z: Decimal) -> Decimal:
    return (-z * z / 2).exp() / (2 * PI).sqrt()
