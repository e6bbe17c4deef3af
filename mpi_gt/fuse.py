"""Fused steps: entrywise arithmetic, recorded once and then run as one compiled loop.

An update of ten numpy calls takes ten trips through Python and memory; on many ranks that share
a core this is most of an iteration. So a step that is marked `@fused` is called once with symbols
in place of its arrays. Its operations on them are recorded as programs for the compiled kernels,
which run from then on and give the same bits: the same operations in the same order, none
contracted. Without the kernels, and if a step does more than entrywise arithmetic, the step itself
is called.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray

from . import kernels
from .kernels.recording import NotRecorded, Recording

Array = NDArray[Any]
Step = TypeVar("Step", bound=Callable[..., Any])


def fused(step: Step) -> Step:
    """Mark the `step` of an algorithm as suitable for recording.

    Parameters
    ----------
    step : callable
        A method `step(self, t, state, mix, grad)` whose result depends on its arguments and on
        the algorithm's parameters alone, and which does entrywise arithmetic only, besides its
        calls of `mix` and `grad`: the operators ``+ - * /``, ``abs``, and numpy's sqrt, minimum,
        maximum, square, absolute and negative; ``**`` on numbers such as t only.

    Returns
    -------
    callable
        The same method. A step that turns out to do more is called as it is.
    """
    step.fused = True  # type: ignore[attr-defined]
    return step


def compiled(algorithm: Any, state: Any, reproducible: bool = False) -> Callable[..., Any]:
    """Return a faster function with the results of `algorithm.step`, or else the step itself.

    `state` shows how many arrays a State of this algorithm has. With `reproducible`, t**0.5 is a
    square root, which is the same on every processor, unlike a power of the C library.
    """
    step: Callable[..., Any] = algorithm.step
    if kernels.C is None or not getattr(step, "fused", False) or not hasattr(state, "_fields"):
        return step
    try:
        return Recording(len(state), reproducible).of_step(step, type(state))
    except (NotRecorded, TypeError, AttributeError, ValueError):
        return step  # more than entrywise arithmetic


def entrywise(function: Callable[..., Array], arrays: int) -> Callable[..., Array]:
    """Return a compiled form of an entrywise function of `arrays` arrays, or the function itself.

    The compiled form has an attribute `program`, which other kernels can run.
    """
    if kernels.C is None:
        return function
    try:
        program = Recording(arrays).of_function(function)
    except NotRecorded:
        return function

    def call(*operands: Array) -> Array:
        result: Array | None = program(*operands, 0)
        return function(*operands) if result is None else result

    call.program = program  # type: ignore[attr-defined]
    return call
