"""Fused steps: entrywise arithmetic, recorded once and then run as one compiled loop.

An update of ten numpy calls takes ten trips through Python and memory; on many ranks that share
a core this is most of an iteration. So a step that is marked `@fused` is called once with symbols
in place of its arrays. Its operations on them are recorded as programs for the compiled kernels,
which run from then on and give the same bits: the same operations in the same order, none
contracted. Without the kernels, and if a step does more than entrywise arithmetic, the step itself
is called.
"""

from collections.abc import Callable, Hashable
from functools import partial
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
        calls of `mix`, `grad` and `grad.full`: the operators ``+ - * /``, ``abs``, and numpy's
        sqrt, minimum, maximum, square, absolute and negative; ``**`` on numbers such as t only.
        It may decide on t, by ``t % period == 0`` or a comparison, if the algorithm has a method
        `phase(t)`: steps of the same phase must decide alike, and are recorded once.

    Returns
    -------
    callable
        The same method. A step that turns out to do more is called as it is.
    """
    step.fused = True  # type: ignore[attr-defined]
    return step


def compiled(
    algorithm: Any,
    state: Any,
    otherwise: Callable[..., Any] | None = None,
    reproducible: bool = False,
) -> Callable[..., Any]:
    """Return a faster function with the results of `algorithm.step`, or else `otherwise`.

    `state` shows how many arrays a State of this algorithm has. `otherwise` is called where the
    step cannot be recorded; by default it is the step itself. With `reproducible`, t**0.5 is a
    square root, which is the same on every processor, unlike a power of the C library.
    """
    step = otherwise or algorithm.step
    fusable = getattr(algorithm.step, "fused", False) and hasattr(state, "_fields")
    if kernels.C is None or not fusable:
        return step
    recorded = partial(_recorded, algorithm, type(state), step, reproducible)
    whole = recorded()
    if whole is not None:
        return whole
    phase = getattr(algorithm, "phase", None)
    if phase is None or recorded(1) is None:
        return step  # more than entrywise arithmetic
    return _by_phase(recorded, step, phase)


def _by_phase(
    recorded: Callable[[int], Callable[..., Any] | None],
    otherwise: Callable[..., Any],
    phase: Callable[[int], Hashable],
) -> Callable[..., Any]:
    """Return the step, recorded at the first iteration of each phase."""
    steps: dict[Hashable, Callable[..., Any]] = {}

    def step(t: int, state: Any, mix: Any, grad: Any) -> Any:
        now = phase(t)
        known = steps.get(now)
        if known is None:
            known = steps[now] = recorded(t) or otherwise
        return known(t, state, mix, grad)

    step.steps = steps  # type: ignore[attr-defined]  # for the tests
    return step


def _recorded(
    algorithm: Any,
    kind: Any,
    otherwise: Callable[..., Any],
    reproducible: bool,
    t: int | None = None,
) -> Callable[..., Any] | None:
    """Return the recorded step, with its decisions as at iteration t; None if that fails."""
    recording = Recording(len(kind._fields), reproducible, t)
    try:
        return recording.of_step(algorithm.step, kind, otherwise)
    except (NotRecorded, TypeError, AttributeError, ValueError):
        return None


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
