"""Estimators u of the local gradient whose error vanishes: one line each.

`new` and `old` are the stochastic gradients at the new and at the old x, with the same draw; with
two draws, u would be a random walk.
"""

from .base import Array, Gradient


def first(x: Array, grad: Gradient, start: str, beta: float = 0.0) -> Array:
    """Return u_1: the exact gradient with start=full, unless beta=1 never looks at it again."""
    return grad.full(x) if start == "full" and beta != 1 else grad(x)


def storm(beta: float, u: Array, new: Array, old: Array) -> Array:
    """Return the next u of STORM, between SARAH (beta=0) and the plain gradient (beta=1)."""
    return new + (1 - beta) * (u - old)


def sarah(u: Array, new: Array, old: Array) -> Array:
    """Return the next u of SARAH."""
    return u + new - old


def svrg(new: Array, at_anchor: Array, full: Array) -> Array:
    """Return the next u of SVRG; `at_anchor` and `full` are the gradients at the anchor."""
    return new - at_anchor + full
