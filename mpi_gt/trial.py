"""Trials: with $MPI_GT_TRIAL=20 a command that would take long runs on a small scale.

No run then makes more than 20 iterations, no `-n` starts more than RANKS ranks, no experiment of
`reproduce` has more than METHODS algorithms, and no measurement of `bench` takes more than 20
milliseconds, whatever the options say. The tests run every command of the documentation this way.
"""

import os

from .errors import UserError

VARIABLE = "MPI_GT_TRIAL"
RANKS = 4
METHODS = 2


def limit() -> int | None:
    """Return the largest number of iterations in a trial; None outside a trial."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"${VARIABLE} must be a number of iterations, not '{text}'")
    return int(text)


def cut_iterations(iterations: int) -> int:
    """Return the number of iterations, in a trial at most its limit."""
    return min(iterations, limit() or iterations)


def cut_ranks(n: int) -> int:
    """Return the number of ranks, in a trial at most RANKS."""
    return n if limit() is None else min(n, RANKS)


def cut_methods(number: int) -> int:
    """Return the number of algorithms, in a trial at most METHODS."""
    return number if limit() is None else min(number, METHODS)


def cut_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of messages to measure, in a trial the first METHODS of them."""
    return sizes if limit() is None else sizes[:METHODS]


def cut_seconds(seconds: float) -> float:
    """Return the seconds of a measurement, in a trial at most 1 ms per allowed iteration."""
    most = limit()
    return seconds if most is None else min(seconds, most / 1000)


def warnings() -> list[str]:
    """Return the warning for run.json that the options were cut by a trial; else nothing."""
    most = limit()
    if most is None:
        return []
    cut = f"runs to {most} iterations, -n to {RANKS}, reproduce to {METHODS} methods"
    return [f"a trial: {VARIABLE} cuts {cut}"]
