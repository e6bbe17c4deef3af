"""Budgets: the iterations that a method gets for a number of sample gradients, or of bytes."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..spec import convert_options, split

Array = NDArray[Any]

MOST_STEPS = 10**7  # of a method with phases: its costs are added up step by step


@dataclass(frozen=True)
class Budget:
    """The limit of what a method may spend: `gradients` per node and seed, or `bytes` per seed."""

    gradients: float = 0.0
    bytes: float = 0.0

    @classmethod
    def of(cls, text: str) -> "Budget":
        """Parse gradients=NUMBER or bytes=NUMBER into a checked budget."""
        _, options = split(f"budget:{text}") if "=" in text else ("", {})
        if len(options) != 1:
            raise UserError(f"--budget must be gradients=NUMBER or bytes=NUMBER, not '{text}'")
        budget = cls(**convert_options("--budget", cls, options))
        (name,) = options
        amount = getattr(budget, name)
        if not (math.isfinite(amount) and amount >= 1):
            raise UserError(f"--budget: {name} must be finite and at least 1, not {amount:g}")
        return budget

    def share(self, cost: "Cost") -> float:
        """Return the share of the budget that this cost takes."""
        return cost.gradients / self.gradients if self.gradients else cost.bytes / self.bytes


class Cost(NamedTuple):
    """The cost of a start or of a step: sample gradients per node, bytes of all nodes; per seed."""

    gradients: int
    bytes: int

    def plus(self, other: "Cost", times: int = 1) -> "Cost":
        return Cost(self.gradients + times * other.gradients, self.bytes + times * other.bytes)


class Meter:
    """Costs of an algorithm: its steps are called with a `grad` and a `mix` that count.

    Parameters
    ----------
    algorithm
        The algorithm; its steps cost the same in the same phase.
    like
        An array of the shape (seeds, dim) and dtype of x.
    costs
        Sample gradients per call of `grad` and of `grad.full`.
    targets
        The number of messages in one exchange.
    gradient
        A function with which `grad` and `grad.full` answer.
    layer
        A function that returns, for t, the node's part of the graph, whose `sources` it hears.
    compressor
        That of `mix.compressed`, by default the algorithm's attribute.
    """

    def __init__(
        self,
        algorithm: Any,
        like: Array,
        costs: tuple[int, int],
        targets: int = 1,
        gradient: Callable[[Array], Array] = np.ones_like,
        layer: Callable[[int], Any] | None = None,
        compressor: Any = None,
    ) -> None:
        self._algorithm = algorithm
        self._compressor: Any = compressor or getattr(algorithm, "compressor", None)
        self._costs = costs
        self._targets = targets
        self._seeds = len(like)
        self._gradient = gradient
        self._layer = layer
        self._t = 1
        self._spent = Cost(0, 0)
        with np.errstate(all="ignore"):
            self._state = algorithm.init(np.zeros_like(like), self)
        self.start = self._spent

    def step(self, t: int) -> Cost:
        """Return the cost of step t."""
        self._spent = Cost(0, 0)
        self._t = t
        with np.errstate(all="ignore"):
            self._algorithm.step(t, self._state, _CountingMix(self), self)
        return self._spent

    def __call__(self, x: Array) -> Array:
        self._spent = self._spent.plus(Cost(self._costs[0], 0))
        return self._gradient(x)

    def full(self, x: Array) -> Array:
        self._spent = self._spent.plus(Cost(self._costs[1], 0))
        return self._gradient(x)

    def send(self, vectors: Sequence[Array]) -> None:
        """Count the bytes of these vectors, sent by all nodes."""
        self._count(sum(vector.nbytes for vector in vectors))

    def send_compressed(self, vectors: Sequence[Array]) -> None:
        """Count the bytes of the payloads of these vectors, sent by all nodes."""
        self._count(sum(self._compressor.size(*z.shape, z.dtype) for z in vectors))

    def _count(self, size: int) -> None:
        self._spent = self._spent.plus(Cost(0, self._targets * (size // self._seeds)))

    def apart(self, vector: Array) -> dict[int, Array]:
        """Return the vector as if it came from every source."""
        return {} if self._layer is None else dict.fromkeys(self._layer(self._t).sources, vector)


class _CountingMix:
    """A mix without messages: each result is the vector itself."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def __call__(self, *vectors: Array) -> "_Results":
        self._meter.send(vectors)
        return _Results(map(_Ready, vectors))

    def each(self, *vectors: Array) -> "_Results":
        self._meter.send(vectors)
        return _Results(_Ready(self._meter.apart(vector)) for vector in vectors)

    def compressed(self, *vectors: Array) -> "tuple[tuple[Array, _Ready], ...]":
        self._meter.send_compressed(vectors)
        return tuple((vector, _Ready(vector)) for vector in vectors)


class _Ready(NamedTuple):
    """A result of a mix without messages."""

    value: Any

    def wait(self) -> Any:
        return self.value


class _Results(tuple[_Ready, ...]):
    """One result per vector; with a single vector, `mix(z).wait()` works as well."""

    def wait(self) -> Any:
        (only,) = self
        return only.wait()


def iterations_within(
    budget: Budget, start: Cost, step: Callable[[int], Cost], phase: Any, most: int, label: str
) -> int:
    """Return the first iteration by which the budget is spent, at most `most`.

    `step(t)` is the cost of step t. It is the same in all steps of one `phase(t)`, and in all
    steps if that is None.
    """
    spent, t = start, 0
    if phase is None:
        each = budget.share(step(1))
        if each == 0:
            raise UserError(_nothing(budget, label))
        needed = max(1, math.ceil((1 - budget.share(start)) / each))
        while needed > 1 and budget.share(start.plus(step(1), needed - 1)) >= 1:
            needed -= 1  # rounding
        return min(needed, most)
    known: dict[Hashable, Cost] = {}
    while t < min(most, MOST_STEPS):
        t += 1
        now = phase(t)
        if now not in known:
            known[now] = step(t)
        spent = spent.plus(known[now])
        if budget.share(spent) >= 1:
            return t
    if t == most:
        return most
    if budget.share(spent) == budget.share(start):
        raise UserError(_nothing(budget, label))
    raise UserError(
        f"{label} could go on for more than {MOST_STEPS:,} iterations on this budget: give "
        "--iterations as well"
    )


def _nothing(budget: Budget, label: str) -> str:
    what = "evaluates no gradients" if budget.gradients else "sends nothing here"
    return f"{label} {what}, and would never spend this budget"
