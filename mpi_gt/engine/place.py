"""A method's view of its node: what `init` and `step` get if they have an argument `place`."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..graphs.network import LayerRow, Row
from ..problems.base import Constant, Constants, Draws, Place
from ..user_classes import call_user_code

Array = NDArray[Any]

METHODS = 1 << 31
"""Added to every purpose of a method's random numbers: those of problems are smaller."""


@dataclass(frozen=True)
class MethodPlace:
    """The view of one node; `mpi_gt.algorithms.base.Place` describes what methods may use."""

    at: Place
    row: Row
    problem: Any
    problem_name: str = "the problem"
    _draws: dict[tuple[int, int], Draws] = field(default_factory=dict, repr=False)

    @property
    def node(self) -> int:
        return self.at.node

    @property
    def nodes(self) -> int:
        return self.at.nodes

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.at.seeds

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.at.dtype

    @property
    def neighbours(self) -> tuple[int, ...]:
        return self.row.neighbours

    neighbors = neighbours

    @property
    def sources(self) -> tuple[int, ...]:
        return self.row.sources

    @property
    def targets(self) -> tuple[int, ...]:
        return self.row.targets

    def layer(self, t: int) -> LayerRow:
        return self.row.layers[self.row.turns.at(t)]

    @cached_property
    def weights(self) -> Mapping[int, float]:
        first, *others = self.row.layers
        if others or "A" not in first.weights:
            raise UserError(
                "place.weights is the row of one matrix A, and this graph changes or has none: "
                "place.layer(t).weights has those of step t, by kind"
            )
        weights = dict(zip(first.sources, first.weights["A"].tolist(), strict=True))
        weights[self.node] = first.own["A"]
        return MappingProxyType(dict(sorted(weights.items())))

    @cached_property
    def constants(self) -> Constants | None:
        if not hasattr(self.problem, "constants"):
            return None
        what = f"{self.problem_name}.constants"
        return call_user_code(what, lambda: _checked(what, self.problem.constants()))

    def random(
        self, seed: int, purpose: int, block: int = 0, shared: bool = False
    ) -> np.random.Generator:
        return self.at.random(seed, _of_methods(purpose), block, shared)

    def draws(self, t: int, purpose: int, width: int) -> Array:
        drawn = self._draws.get((purpose, width))
        if drawn is None:
            if width < 1:
                raise ValueError(f"width must be at least 1, not {width}")
            drawn = self._draws[purpose, width] = Draws(self.at, _of_methods(purpose), width)
        if t < 1:
            raise ValueError(f"iterations are numbered from 1: there are no draws of t = {t}")
        return drawn.at(t)


def _of_methods(purpose: int) -> int:
    if not 0 <= purpose < METHODS:
        raise ValueError(f"the purpose of random numbers must be in [0, 2^31), not {purpose}")
    return METHODS | int(purpose)


def _checked(what: str, constants: Any) -> Constants:
    """Return the constants of a problem; raise UserError unless they are four finite numbers."""
    table = np.array(constants, dtype=float)
    if table.shape != (4, 2) or not np.isfinite(table).all() or (table[:3, 0] < 0).any():
        raise UserError(f"{what} must return finite Constants, not {table.tolist()}")
    return Constants(*(Constant(value, bool(exact)) for value, exact in table.tolist()))


class Placed:
    """`init` and `step` of an algorithm, with its `place` where they ask for one."""

    def __init__(self, algorithm: Any, place: MethodPlace) -> None:
        self.init = with_place(algorithm.init, place)
        self.step = with_place(algorithm.step, place)
        self.asks = any(map(asks_for_place, (algorithm.init, algorithm.step)))
        self.phase = getattr(algorithm, "phase", None)


def with_place(method: Callable[..., Any], place: MethodPlace) -> Callable[..., Any]:
    """Return the method with its argument `place` given; the method itself if it has none."""
    if not asks_for_place(method):
        return method
    given = partial(method, place=place)
    # a recorded step may use its place: all of that is the same at every iteration, or needs t
    given.fused = getattr(method, "fused", False)  # type: ignore[attr-defined]
    return given


def asks_for_place(method: Callable[..., Any]) -> bool:
    """Return whether a method has an argument called `place`."""
    try:
        return "place" in inspect.signature(method).parameters
    except (TypeError, ValueError):  # it has no signature to read
        return False
