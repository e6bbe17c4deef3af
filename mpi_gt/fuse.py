"""Entrywise expressions, recorded once and run as one compiled loop.

An update of ten numpy calls takes ten trips through Python and memory; on many ranks that share
a core this is most of an iteration. So a step that is marked `@fused` is called once with symbols
in place of its arrays. What it does with them is recorded as programs for the compiled kernels,
and these are run from then on, to the same bits: same operations, same order, none contracted.
Without the kernels, or where a step does more than entrywise arithmetic, it is called as it is.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray

from . import kernels
from .kernels.recording import NotRecorded, Recording

Array = NDArray[Any]
Step = TypeVar("Step", bound=Callable[..., Any])


def fused(step: Step) -> Step:
    """Marks a `step` that depends on its arguments alone and is entrywise but for mix and grad."""
    step.fused = True  # type: ignore[attr-defined]
    return step


def compiled(algorithm: Any, state: Any) -> Callable[..., Any]:
    """`algorithm.step`, or what does the same quicker for states like this one."""
    step: Callable[..., Any] = algorithm.step
    if kernels.C is None or not getattr(step, "fused", False) or not hasattr(state, "_fields"):
        return step
    try:
        return Recording(len(state)).of_step(step, type(state))
    except (NotRecorded, TypeError, AttributeError, ValueError):
        return step  # more than entrywise arithmetic


def entrywise(function: Callable[..., Array], arrays: int) -> Callable[..., Array]:
    """An entrywise function of so many arrays of one shape, in compiled form where it can be.

    Its `program` is then there for other kernels to run.
    """
    if kernels.C is None:
        return function
    try:
        program = Recording(arrays).of_function(function)
    except NotRecorded:
        return function

    def call(*given: Array) -> Array:
        answer: Array | None = program(*given, 0)
        return function(*given) if answer is None else answer

    call.program = program  # type: ignore[attr-defined]
    return call
