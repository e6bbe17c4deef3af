"""Everything small: $MPI_GT_TRIAL=20 is for trying out commands that would take long.

No run then makes more than 20 iterations, no `-n` starts more than RANKS ranks, no experiment of
`reproduce` has more than METHODS algorithms, and no figure of a bench takes more than 20
milliseconds, whatever was asked for. The tests run every command of the README this way.
"""

import os

from .errors import UserError

VARIABLE = "MPI_GT_TRIAL"
RANKS = 4
METHODS = 2


def limit() -> int | None:
    """The most iterations of a run; None where there is no such limit."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"${VARIABLE} must be a number of iterations, not '{text}'")
    return int(text)


def cut_iterations(iterations: int) -> int:
    return min(iterations, limit() or iterations)


def cut_ranks(n: int) -> int:
    return n if limit() is None else min(n, RANKS)


def cut_methods(number: int) -> int:
    return number if limit() is None else min(number, METHODS)


def cut_seconds(seconds: float) -> float:
    most = limit()
    return seconds if most is None else min(seconds, most / 1000)


def warnings() -> list[str]:
    """For run.json: numbers of a trial are not those that were asked for."""
    most = limit()
    if most is None:
        return []
    cut = f"runs to {most} iterations, -n to {RANKS}, reproduce to {METHODS} methods"
    return [f"a trial: {VARIABLE} cuts {cut}"]
