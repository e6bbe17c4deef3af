"""The length of each method's run: by --iterations, or until its budget is spent."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..algorithms.base import exchange_interval, round_up
from ..algorithms.budget import Budget, Cost, Meter, iterations_within
from ..config import Entry, RunConfig
from ..graphs.network import Row, Turns
from ..user_classes import call_user_code
from .contracts import Costs
from .place import MethodPlace, Placed


class Extent(NamedTuple):
    """The length of one method's run."""

    iterations: int
    log_interval: int


def extents_of(
    config: RunConfig,
    entries: list[Entry],
    place: MethodPlace,
    costs: Costs,
    targets: Sequence[int],
) -> dict[str, Extent]:
    """Return the extent of each method, by label.

    `targets` are the numbers of messages that all nodes together send in one exchange, by layer.
    All ranks get the same answer. Raises UserError for a method that would never spend its budget.
    """
    extents = {}
    for entry in entries:
        iterations = config.iterations
        if config.budget is not None:
            limit = Budget.of(config.budget)
            meter = _meter(config, entry, place, costs)
            phase = getattr(entry.algorithm, "phase", None)
            if phase is None and (every := exchange_interval(entry.algorithm)) > 1:
                phase = partial(_exchanges, every)
            if limit.bytes and len(set(targets)) > 1:
                phase = partial(_phase_and_layer, phase, place.row.turns)
            step = partial(_cost_of_step, entry, meter, place.row.turns, targets)
            iterations = iterations_within(limit, meter.start, step, phase, iterations, entry.label)
        extents[entry.label] = Extent(iterations, _log_interval(config, entry, iterations))
    return extents


def targets_of(comm: Any, row: Row) -> list[int]:
    """Return the number of messages that all nodes send in one exchange, by layer. Collective."""
    counts = comm.allgather([len(layer.targets) for layer in row.layers])
    return [sum(layer) for layer in zip(*counts, strict=True)]


def _cost_of_step(entry: Entry, meter: Meter, turns: Turns, targets: Sequence[int], t: int) -> Cost:
    """Return the cost of step t, for which the meter counts the bytes of one message."""
    cost = call_user_code(f"{entry.label}.step", lambda: meter.step(t), entry.custom)
    return Cost(cost.gradients, cost.bytes * targets[turns.at(t)])


def _phase_and_layer(phase: Callable[[int], Hashable] | None, turns: Turns, t: int) -> Hashable:
    return (None if phase is None else phase(t)), turns.at(t)


def _exchanges(every: int, t: int) -> bool:
    return t % every == 0


def _meter(config: RunConfig, entry: Entry, place: MethodPlace, costs: Costs) -> Meter:
    """Return what measures the costs of a method's steps; a user's class gets real gradients."""
    dim = int(place.problem.dim)
    if not entry.custom:
        like = np.zeros((1, dim), config.numpy_dtype)
        return Meter(entry.algorithm, like, costs)
    like = np.zeros((config.seeds, dim), config.numpy_dtype)
    gradient = partial(place.problem.gradient, 1)
    placed = Placed(entry.algorithm, place)
    compressor = getattr(entry.algorithm, "compressor", None)
    return call_user_code(
        f"{entry.label}.init",
        lambda: Meter(placed, like, costs, 1, gradient, place.layer, compressor),
    )


def planned_facts(experiment: Any) -> Mapping[str, Any]:
    """Return what run.json says about a budget: the iterations that each method gets for it."""
    if experiment.config.budget is None:
        return {}
    return {"planned": {label: extent.iterations for label, extent in experiment.extents.items()}}


def _log_interval(config: RunConfig, entry: Entry, iterations: int) -> int:
    if config.log_every is not None:
        return config.log_every
    measured = -(-iterations // 200) if config.budget else config.log_interval
    return round_up(measured, exchange_interval(entry.algorithm))
