"""The stepsizes of a sweep, and the stepsize in the specification of a method."""

import math

import numpy as np

from ..errors import UserError
from ..spec import convert, join
from ..user_classes import split_spec

MOST = 1000


def stepsizes(text: str, points: int | None) -> list[float]:
    """Return LOW..HIGH as a logarithmic grid, by default with two steps per decade."""
    low, dots, high = text.partition("..")
    first, last = (convert("lr", float, end.strip()) for end in (low, high or low))
    if not 0 < first <= last < math.inf or (first == last and (dots or points)):
        raise UserError(f"lr must be LOW..HIGH with 0 < LOW < HIGH, not '{text}'")
    if first == last:
        return [first]
    count = points or max(2, round(2 * (math.log10(last) - math.log10(first))) + 1)
    if count > MOST:
        raise UserError(f"lr '{text}' makes {count} stepsizes: give a shorter range, or --points")
    between = np.logspace(math.log10(first), math.log10(last), count)[1:-1]
    return [first, *(float(f"{lr:.3g}") for lr in between), last]


def with_stepsize(spec: str, lr: float) -> str:
    """Return the specification with the option lr; raise UserError if it has one."""
    name, options = split_spec(spec)
    if "lr" in options:
        raise UserError(f"'{spec}' sets the lr that is to be swept")
    return join(name, {"lr": repr(lr), **options})


def without_stepsize(spec: str) -> str:
    """Return the specification without the option lr."""
    name, options = split_spec(spec)
    return join(name, {key: value for key, value in options.items() if key != "lr"})
